"""The commands of ./dev, run as a user does."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.local.stacks import answer_of, free_ports, is_running, tiny_app, wait
from tools.local import state
from tools.local.state import ProcessIdentity, StackState


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return tiny_app(tmp_path / "app")


@pytest.fixture
def port() -> Iterator[int]:
    port = free_ports().api
    yield port
    running = StackState.load(port)
    if running is not None:
        _dev("down", port)
    shutil.rmtree(state.folder(port), ignore_errors=True)


def _command(command: str, port: int, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tools.local.cli", command, "--port", str(port), *(str(word) for word in arguments)]


def _dev(command: str, port: int, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        _command(command, port, *arguments), cwd=state.ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result


def _processes(port: int) -> dict[str, ProcessIdentity]:
    running = StackState.load(port)
    assert running is not None
    return {"supervisor": running.supervisor, **running.children}


@pytest.mark.large
def test_detached_from_up_to_down(app: Path, port: int) -> None:
    """One stack, to save time, goes through up --detach, env, logs, restart-host, up again, down, down again."""
    said = _dev("up", port, "--detach", "--app-dir", app).stderr
    assert f"http://127.0.0.1:{port}" in said
    assert f"./dev down --port {port}" in said
    processes = _processes(port)
    assert set(processes) == {
        "supervisor",
        "azurite-blob",
        "azurite-queue",
        "azurite-table",
        "service-bus",
        f"host-{port}",
    }

    lines = _dev("env", port).stdout.splitlines()
    assert all(line.startswith("export ") for line in lines)
    values = dict(shlex.split(line)[1].split("=", 1) for line in lines)
    assert set(values) == {
        "TASKCLUSTER_ROOT_URL",
        "TASKCLUSTER_CLIENT_ID",
        "TASKCLUSTER_ACCESS_TOKEN",
        "AZURE_STORAGE_CONNECTION_STRING",
        "SERVICEBUS_CONNECTION_STRING",
    }
    assert values["TASKCLUSTER_ROOT_URL"] == f"http://127.0.0.1:{port}"
    assert state.state_path(port).stat().st_mode & 0o077 == 0

    assert f"host-{port}" in _dev("logs", port).stdout
    assert re.search(r"^stack +\| The API is at", _dev("logs", port).stdout, re.MULTILINE)
    assert values["TASKCLUSTER_ACCESS_TOKEN"] not in _dev("logs", port).stdout

    before = answer_of(port)["pid"]
    _dev("restart-host", port)
    assert answer_of(port)["pid"] != before
    assert _processes(port)["supervisor"] == processes["supervisor"]

    assert "already runs" in _dev("up", port, "--detach", "--app-dir", app, code=1).stderr
    assert "already runs" in _dev("up", port, "--app-dir", app, code=1).stderr
    for detach in ([], ["--detach"]):
        said = _dev("up", port, *detach, "--fresh", "--app-dir", app, code=1).stderr
        assert f"its data can be forgotten once it has ended: ./dev down --port {port}" in said
        said = _dev("up", port + 10, *detach, "--app-dir", app, code=1).stderr
        assert f"port {port + 10} (for the API) is taken by the stack on port {port}." in said
        assert f"--port {port + 20}" in said

    now = _processes(port)
    assert "has ended" in _dev("down", port).stderr
    assert not any(is_running(process.pid) for process in (*processes.values(), *now.values()))
    assert f"No stack runs on port {port}.\n" in _dev("down", port).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.large
def test_the_end_of_a_stack_in_the_foreground_leaves_nothing_running(app: Path, port: int, number: int) -> None:
    with subprocess.Popen(_command("up", port, "--app-dir", app), cwd=state.ROOT, stderr=subprocess.PIPE) as process:
        wait(lambda: StackState.load(port) is not None, 60)
        pids = [child.pid for child in _processes(port).values()]
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == (-9 if number == signal.SIGKILL else 0)
    wait(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.large
def test_a_killed_parent_leaves_nothing_running(app: Path, port: int) -> None:
    """Nothing is left running when the shell that ran ./dev up is killed, although ./dev itself gets no signal."""
    line = shlex.join(_command("up", port, "--app-dir", app)) + "; true"
    with subprocess.Popen(
        ["/bin/sh", "-c", line], cwd=state.ROOT, stderr=subprocess.DEVNULL, start_new_session=True
    ) as shell:
        wait(lambda: StackState.load(port) is not None, 60)
        pids = [child.pid for child in _processes(port).values()]
        shell.kill()
    wait(lambda: not any(is_running(pid) for pid in pids), 30)


def test_down_never_signals_a_process_that_only_has_the_same_id(port: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        impostor = ProcessIdentity(stranger.pid, "long ago")
        StackState(port=port, supervisor=impostor, children={"host": impostor}, environment={}).save()
        assert "No stack runs" in _dev("down", port).stderr
        assert not impostor.signal(signal.SIGTERM)
        assert ProcessIdentity.of(stranger.pid).is_running()
        stranger.kill()
