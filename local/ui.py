"""`./dev ui`: the console of a local stack, signed in for an hour."""

import json
import os
import sys
import webbrowser
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import taskcluster

from local import control
from shared.auth.credentials import temporary_credentials

CLIENT_ID = "local/console"
LIFE = timedelta(hours=1)


def address(environment: Mapping[str, str], now: datetime) -> str:
    """The console's address with credentials of an hour, which may do everything, in its fragment.

    Browsers send no fragment to the server, and the console removes it from the address. `environment` is that of
    clients of the stack.
    """
    credentials = temporary_credentials(
        client_id=CLIENT_ID,
        scopes=["*"],
        start=now,
        expiry=now + LIFE,
        issuer=environment["TASKCLUSTER_CLIENT_ID"],
        issuer_token=environment["TASKCLUSTER_ACCESS_TOKEN"],
        seed=taskcluster.slugId() + taskcluster.slugId(),
    )
    fragment = quote(json.dumps(credentials, separators=(",", ":")), safe="")
    return f"{environment['TASKCLUSTER_ROOT_URL'].rstrip('/')}/#credentials={fragment}"


def main(port: int, *, show: bool) -> None:
    """Print the address, and open it if `show` and there is a desktop; ends with a message if no stack runs."""
    url = address(control.running(port).environment, datetime.now(UTC))
    print(url, flush=True)
    opened = show and _has_desktop() and webbrowser.open(url)
    control.say(
        "The console is open in your browser."
        if opened
        else "Open this address in a browser. It signs you in for an hour; do not pass it on."
    )


def _has_desktop() -> bool:
    """Whether a browser has a window to open in: without one, a text browser would take over the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
