"""The hooks of azd that end a deployment: they wait for secrets, and try the app."""

from __future__ import annotations

import contextlib
import http.server
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.infra.play import Play

SITE = {"AZURE_RESOURCE_GROUP": "rg-test", "AZURE_FUNCTION_APP_NAME": "func-abc", "RESOLVE_SECONDS": "0"}
DENIED = "ROOT_ACCESS_TOKEN\tAccessToKeyVaultDenied"


def test_secrets_that_are_there_are_not_waited_for(play: Play) -> None:
    assert play.run("resolve-secrets.sh", **SITE).returncode == 0
    (call,) = play.calls
    assert "/sites/func-abc/config/configreferences/appsettings?" in call


def test_azure_is_asked_to_look_again_until_the_role_is_in_force(play: Play) -> None:
    play.set("references", DENIED, DENIED, "")
    done = play.run("resolve-secrets.sh", **SITE)
    assert done.returncode == 0, done.stderr
    assert len([call for call in play.calls if "--method post" in call and "/refresh?" in call]) == 2
    assert "waiting for ROOT_ACCESS_TOKEN" in done.stdout


def test_secrets_that_stay_away_stop_the_deployment(play: Play) -> None:
    play.set("references", DENIED)
    done = play.run("resolve-secrets.sh", RESOLVE_TRIES="3", **SITE)
    assert done.returncode == 1
    assert DENIED in done.stderr
    assert "is not in force yet" in done.stderr
    assert len([call for call in play.calls if "--method get" in call]) == 3


@dataclass
class App:
    """What a deployed app returns, by the end of the path."""

    ping: list[int]
    version: tuple[int, str] = (200, '{"version": "v1", "commit": ""}')
    status: int = 404


@contextlib.contextmanager
def serving(app: App) -> Iterator[str]:
    """The root URL of an app that returns that."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = app.status, "{}"
            if self.path.endswith("/ping"):
                code = app.ping.pop(0) if len(app.ping) > 1 else app.ping[0]
            elif self.path.endswith("/__version__"):
                code, body = app.version
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the test asserts what was said."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _smoke(play: Play, app: App, **more: str) -> subprocess.CompletedProcess[str]:
    with serving(app) as root:
        return play.run("smoke-test.sh", ROOT_OF_PLAY=root, SMOKE_SECONDS="0", SMOKE_TRIES="3", **more)


@pytest.mark.parametrize("app", [App([200]), App([404, 503, 200]), App([200], status=403)])
def test_an_app_that_works(play: Play, app: App) -> None:
    done = _smoke(play, app, QUEUE_APP_VERSION="v1")
    assert done.returncode == 0, done.stderr
    assert "works" in done.stdout


@pytest.mark.parametrize(
    ("app", "advice"),
    [
        (App([404]), "resolve-secrets.sh"),
        (App([403]), "QUEUE_APP_PUBLIC_ACCESS"),
        (App([500]), "AppExceptions"),
        (App([200], version=(404, "")), "deploy once more"),
        (App([200], version=(200, '{"version": "v0"}')), "azd provision, then azd deploy"),
        (App([200], version=(200, '{"version": "v1.1"}')), "azd provision, then azd deploy"),
        (App([200], status=503), "roles may need up to ten minutes"),
        (App([200], status=200), "should be 403 or 404"),
        (App([200], status=500), "should be 403 or 404"),
    ],
)
def test_an_app_that_does_not_work_and_what_to_do(play: Play, app: App, advice: str) -> None:
    done = _smoke(play, app, QUEUE_APP_VERSION="v1")
    assert done.returncode == 1
    assert advice in done.stderr


def test_an_app_that_is_not_there(play: Play) -> None:
    done = play.run("smoke-test.sh", TASKCLUSTER_ROOT_URL="http://127.0.0.1:9", SMOKE_SECONDS="0", SMOKE_TRIES="2")
    assert done.returncode == 1
    assert "does not answer" in done.stderr


def test_a_closed_app_is_not_asked_from_outside(play: Play) -> None:
    done = _smoke(play, App([403]), QUEUE_APP_PUBLIC_ACCESS="Disabled")
    assert done.returncode == 0
    assert "Run this inside the network" in done.stdout
    assert _smoke(play, App([200], status=503), QUEUE_APP_PUBLIC_ACCESS="Disabled").returncode == 1, (
        "inside it is asked"
    )
