"""The command line of the host: how it starts, what it says when it cannot, how it ends.

How it starts, ends and names a taken port is seen as people run it, and all warnings are errors there. What else stops
a start is seen in forked processes (tests/programs.py).
"""

import json
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.parts.local.host_process import READY, READY_SECONDS, ROOT
from tools.local.child import Child

APP = """
import os
import azure.functions as func
app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
{extra}
@app.route("value", methods=["GET"])
async def value(req: func.HttpRequest) -> str:
    return os.environ.get("VALUE", "unset") + " " + os.getcwd()
"""


def write_app(folder: Path, code: str = "", extra: str = "", host_json: str = '{"version": "2.0"}') -> Path:
    """Writes an app of one HTTP function, with additional code, or with other code altogether."""
    (folder / "function_app.py").write_text(code or APP.format(extra=extra))
    (folder / "host.json").write_text(host_json)
    return folder


def command(folder: Path, *arguments: str) -> list[str]:
    """Returns the host's command line, on any free port unless one is given."""
    return [sys.executable, "-W", "error", "-m", "tools.local.host", *_words(folder, arguments)]


def forked(folder: Path, *arguments: str) -> list[str]:
    """Returns a command line of the same host for which no new interpreter is started."""
    return [sys.executable, "-m", "tools.local.tethered", "tools.local.host", *_words(folder, arguments)]


def _words(folder: Path, arguments: Sequence[str]) -> list[str]:
    port = [] if "--port" in arguments else ["--port", "0"]
    return ["--app-dir", str(folder), *port, *arguments]


def fails(typed: Sequence[str], log: Path) -> tuple[int | None, str]:
    """Starts a host that cannot start; returns its exit code and what it says."""
    child = Child.start("host", typed, log=log, cwd=ROOT)
    code = child.wait(60)
    child.kill()
    return code, child.output()


def get(url: str) -> str:
    """Returns the body of an answer."""
    with urllib.request.urlopen(url, timeout=10) as response:
        body: bytes = response.read()
        return body.decode()


def test_a_host_says_when_it_is_ready_and_ends_on_a_signal(tmp_path: Path) -> None:
    write_app(tmp_path)
    (tmp_path / "local.settings.json").write_text('{"Values": {"VALUE": "from the file"}}')
    child = Child.start("host", command(tmp_path), log=tmp_path / "log", cwd=ROOT)
    port = child.wait_for(READY, READY_SECONDS)[1]
    assert get(f"http://127.0.0.1:{port}/api/value") == f"from the file {tmp_path}"
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(20) == 0
    assert child.output().count("local host:") == 1
    child.kill()


def test_the_environment_wins_over_the_settings_that_were_named(tmp_path: Path) -> None:
    write_app(tmp_path)
    settings = tmp_path / "other.json"
    settings.write_text('{"Values": {"VALUE": "from the file"}}')
    arguments = forked(tmp_path, "--settings", str(settings), "--in-process")
    child = Child.start("host", arguments, log=tmp_path / "log", env={"VALUE": "from outside"}, cwd=ROOT)
    port = child.wait_for(READY, READY_SECONDS)[1]
    assert get(f"http://127.0.0.1:{port}/api/value").startswith("from outside")
    child.kill()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, message = fails(command(write_app(tmp_path), "--port", port), tmp_path / "log")
    assert code == 2
    assert message == f"local host: port {port} on 127.0.0.1 is taken; choose another one with --port\n"


QUEUE = """
@app.queue_trigger(arg_name="msg", queue_name="q", connection="Nowhere")
def listen(msg: func.QueueMessage) -> None: ...
"""
TIMER = """
@app.timer_trigger(arg_name="timer", schedule="0 0 0 30 2 *")
def tick(timer: func.TimerRequest) -> None: ...
"""
TWIN = """
@app.route("VALUE", methods=["GET", "PUT"])
def twin(req: func.HttpRequest) -> str: ...
"""


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (QUEUE, "function listen: its connection is not set"),
        (TIMER, "function tick: its schedule is not valid"),
        (TWIN, "functions twin and value have the same route and method"),
        ("raise SystemExit('SOME_SETTING is bad')", "function_app.py failed: SOME_SETTING is bad"),
        ("raise SystemExit(3)", "ended the process with code 3"),
    ],
)
def test_an_app_that_cannot_be_served_is_explained_in_one_line(tmp_path: Path, extra: str, why: str) -> None:
    code, message = fails(forked(write_app(tmp_path, extra=extra)), tmp_path / "log")
    assert code == 2
    assert why in message
    assert message.startswith("local host: ")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (
            "raise ValueError('SOME_SETTING is missing')",
            r"local host: .*function_app.py failed: SOME_SETTING is missing",
        ),
        ("raise KeyError('oops')", r"(?s)Traceback.*KeyError: 'oops'"),
        ("other = func.FunctionApp()", "must define one FunctionApp at its top level, not 2"),
    ],
)
def test_an_app_that_cannot_be_imported_is_explained_and_looks_healthy(tmp_path: Path, extra: str, why: str) -> None:
    """A host whose app cannot be imported says why and goes on; the real one says nothing (worker-import)."""
    child = Child.start("host", forked(write_app(tmp_path, extra=extra)), log=tmp_path / "log", cwd=ROOT)
    port = child.wait_for(READY, READY_SECONDS)[1]
    child.wait_for(why + "\\nThe host serves no function", READY_SECONDS)
    assert "up and running" in get(f"http://127.0.0.1:{port}/")
    assert get(f"http://127.0.0.1:{port}/admin/host/ping") == ""
    with pytest.raises(HTTPError, match="404"):
        get(f"http://127.0.0.1:{port}/api/value")
    child.kill()


@pytest.mark.large
def test_files_that_are_missing_or_wrong_are_named(tmp_path: Path) -> None:
    def said(*arguments: str) -> tuple[int | None, str]:
        return fails(forked(tmp_path, *arguments), tmp_path / "log")

    assert said() == (2, f"local host: {tmp_path}/host.json: No such file or directory\n")
    write_app(tmp_path, host_json=json.dumps({"version": "2.0", "extensions": {"http": {"hsts": {}}}}))
    assert said() == (2, "local host: host.json: the local host does not support extensions.http.hsts\n")
    write_app(tmp_path)
    code, message = said("--settings", str(tmp_path / "absent.json"))
    assert (code, message) == (2, f"local host: {tmp_path}/absent.json: No such file or directory\n")
    (tmp_path / "local.settings.json").write_text('{"Values": {"A": 1}}')
    code, message = said()
    assert code == 2
    assert "the value of A must be a string" in message
