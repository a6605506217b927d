"""`./dev ui`: the console of a local stack, signed in for an hour."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import taskcluster

from shared.auth.certificates import temporary_credentials
from tools.local import control, handover, state

CLIENT_ID = "local/console"
LIFE = timedelta(hours=1)


def address(port: int, environment: Mapping[str, str], now: datetime) -> str:
    """Returns an address that signs in to the console of the stack on this port, once, within a minute, after a
    question. Its fragment is a code for credentials of an hour, which may do everything; browsers send no fragment to a
    server. `environment` is that of clients of the stack."""
    credentials = temporary_credentials(
        client_id=CLIENT_ID,
        scopes=["*"],
        start=now,
        expiry=now + LIFE,
        issuer=environment["TASKCLUSTER_CLIENT_ID"],
        issuer_token=environment["TASKCLUSTER_ACCESS_TOKEN"],
        seed=taskcluster.slugId() + taskcluster.slugId(),
    )
    code = handover.hand_over(state.folder(port) / handover.FOLDER, credentials, now)
    return f"{environment['TASKCLUSTER_ROOT_URL'].rstrip('/')}{handover.PAGE}#{code}"


def main(port: int, *, show: bool) -> None:
    """Prints the address, and opens it if `show` and there is a desktop; ends with a message if no stack runs."""
    stack = control.running(port)
    if not any(name.startswith("host-") for name in stack.children):
        control.fail(f"the stack on port {port} was started without a host: sign in with what ./dev env prints")
    url = address(port, stack.environment, datetime.now(UTC))
    print(url, flush=True)
    opened = show and _has_desktop() and webbrowser.open(url)
    control.say(
        "The console is open in your browser, and asks whether to sign in."
        if opened
        else "Open this address in a browser within a minute. It signs in once, for an hour."
    )


def _has_desktop() -> bool:
    """Returns whether a browser can open a window; without one, a text browser would take over the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
