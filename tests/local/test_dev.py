"""The commands of ./dev, run as a user does."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.stacks import free_ports, is_running, tiny_app, wait
from tools.local import checks, state
from tools.local.child import Child
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


def _get(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/pid", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@pytest.mark.large
def test_detached_from_up_to_down(app: Path, port: int) -> None:
    """up --detach, env, logs, restart-host, a second up, down, and a second down: one stack, to save time."""
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

    before = _get(port)["pid"]
    _dev("restart-host", port)
    assert _get(port)["pid"] != before
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


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
@pytest.mark.large
def test_a_detached_stack_that_ended_by_itself_leaves_its_log(app: Path, port: int, number: int | None) -> None:
    """It was killed, or a part of it ended that cannot be replaced."""
    _dev("up", port, "--detach", "--app-dir", app)
    processes = _processes(port)
    victim = processes["supervisor" if number else "azurite-queue"]
    victim.signal(signal.SIGKILL)
    wait(lambda: not any(process.is_running() for process in processes.values()), 30)
    for command, code in (("env", 1), ("down", 0), ("restart-host", 1)):
        assert f"ended by itself: see .local/{port}/stack.log" in _dev(command, port, code=code).stderr
    shown = _dev("logs", port).stdout
    assert "stack " in shown
    assert ("azurite-queue ended with exit code -9" in shown) == (number is None)


def test_what_needs_a_running_stack_says_so(port: int) -> None:
    for command in ("env", "restart-host"):
        result = _dev(command, port, code=1)
        assert result.stdout == ""
        assert f"no stack runs on port {port}; start one with: ./dev up --port {port} --detach" in result.stderr
    assert "no logs" in _dev("logs", port, code=1).stderr


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
    """The shell that ran ./dev up is killed, and ./dev itself gets no signal."""
    line = shlex.join(_command("up", port, "--app-dir", app)) + "; true"
    with subprocess.Popen(
        ["/bin/sh", "-c", line], cwd=state.ROOT, stderr=subprocess.DEVNULL, start_new_session=True
    ) as shell:
        wait(lambda: StackState.load(port) is not None, 60)
        pids = [child.pid for child in _processes(port).values()]
        shell.kill()
    wait(lambda: not any(is_running(pid) for pid in pids), 30)


@pytest.mark.large
def test_a_detached_stack_that_cannot_start_says_why_and_leaves_nothing(app: Path, port: int) -> None:
    (app / "function_app.py").write_text("raise ValueError('CLAIM_TIMEOUT_SECONDS: should be greater than 0')")
    assert "CLAIM_TIMEOUT_SECONDS: should be" in _dev("up", port, "--detach", "--app-dir", app, code=1).stderr
    assert StackState.load(port) is None


def _refused(log: Path, port: int, *arguments: object) -> str:
    """What `./dev up` says that starts nothing. It is forked, as a new interpreter would import for half a second."""
    typed = [sys.executable, "-m", "tools.local.tethered", *_command("up", port, *arguments)[2:]]
    child = Child.start("dev", typed, log=log, cwd=state.ROOT)
    assert child.wait(90) == 1
    child.stop()
    assert "Traceback" not in child.output()
    return child.output()


def test_a_taken_port_is_named(app: Path, port: int, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        taken = f"port {port} (for the API) is taken"
        assert taken in _dev("up", port, "--app-dir", app, code=1).stderr
        assert taken in _refused(tmp_path / "log", port, "--detach", "--app-dir", app)


def test_a_port_out_of_range_is_refused(tmp_path: Path) -> None:
    assert "the port must lie between" in _refused(tmp_path / "log", 80)


def test_down_never_signals_a_process_that_only_has_the_same_id(port: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        impostor = ProcessIdentity(stranger.pid, "long ago")
        StackState(port=port, supervisor=impostor, children={"host": impostor}, environment={}).save()
        assert "No stack runs" in _dev("down", port).stderr
        assert not impostor.signal(signal.SIGTERM)
        assert ProcessIdentity.of(stranger.pid).is_running()
        stranger.kill()


def test_the_checks_and_where_their_arguments_go() -> None:
    def pytest_of(*arguments: str) -> list[str]:
        return checks.steps(arguments)[-1][1]

    assert [title for title, _ in checks.steps([])] == ["Lint", "Format", "Types", "Imports", "Console", "Tests"]
    assert pytest_of() == ["pytest", "-n", str(checks.PROCESSES), "--dist", "loadgroup", "-m", "not large"]
    assert "-m" not in pytest_of("--all")
    assert "--all" not in pytest_of("--all")
    assert pytest_of("--quick")[1:3] == ["-n", str(checks.QUICK_PROCESSES)]
    assert "--quick" in pytest_of("--quick")
    assert pytest_of("-n4", "--dist=load", "-m", "large", "-k", "x") == (
        ["pytest", "-n4", "--dist=load", "-m", "large", "-k", "x"]
    )


def test_coverage_is_measured_of_the_tests_and_held_against_the_floor_when_all_of_them_ran() -> None:
    checked = dict(checks.steps(["--coverage"]))
    assert checked["Tests"][:4] == ["coverage", "run", "-m", "pytest"]
    assert "--coverage" not in checked["Tests"]
    assert list(checked)[-3:] == ["Coverage of all processes", "Coverage in .local/coverage/html", "Coverage"]
    assert checked["Coverage"] == ["coverage", "report"]
    assert checks.steps(["--coverage", "tests/unit"])[-1][1] == ["coverage", "report", "--fail-under", "0"]


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_asked_for_help_the_checks_are_not_run(option: str) -> None:
    command = [sys.executable, "-m", "tools.local.cli", "test", option]
    shown = subprocess.run(command, cwd=state.ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.startswith("Usage: ./dev test [--quick] [--all] [--coverage] [PYTEST_ARGUMENT]...")
    assert "lint, formatting, types, imports, tests" in shown
    assert "Lint:" not in shown


@pytest.mark.parametrize("tool", ["listen", "worker"])
def test_tools_show_the_name_that_was_typed(tool: str) -> None:
    command = [sys.executable, "-m", "tools.local.cli", tool, "--help"]
    shown = subprocess.run(command, cwd=state.ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.lower().startswith(f"usage: ./dev {tool} ")


@pytest.mark.parametrize("command", [["admin", "client", "create"], ["example", "notify"]])
def test_help_needs_no_stack_though_a_port_is_named(command: list[str]) -> None:
    name, *rest = command
    typed = [sys.executable, "-m", "tools.local.cli", name, "--port", str(free_ports().api), *rest, "--help"]
    shown = subprocess.run(typed, cwd=state.ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.lower().startswith(f"usage: ./dev {' '.join(command)} ")


def test_the_checks_stop_at_the_first_that_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        checks,
        "steps",
        lambda _: [("Good", ["timeit", "-n1", "-r1"]), ("Bad", ["nosuchmodule"]), ("Later", ["timeit"])],
    )
    assert checks.main([]) == 1
    shown = capfd.readouterr()
    assert "Good: passed" in shown.out
    assert "Bad failed (exit code 1)" in shown.err
    assert "Later" not in shown.out


def test_a_check_beside_the_others_ends_them_when_it_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "GRACE_SECONDS", 0.5)  # interrupts may be ignored where the tests run
    forever = ("Tests", ["timeit", "-n1", "-r1", "import time; time.sleep(600)"])
    monkeypatch.setattr(checks, "steps", lambda _: [("Types", ["nosuchmodule"]), forever, ("Later", ["timeit"])])
    assert checks.main([]) == 1
    shown = capfd.readouterr()
    assert "No module named nosuchmodule" in shown.out
    assert "Types failed (exit code 1)" in shown.err
    assert "Later" not in shown.out


def test_a_check_beside_the_others_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = ("Types", ["timeit", "-n1", "-r1", "import time; time.sleep(0.5)"])
    monkeypatch.setattr(checks, "steps", lambda _: [slow, ("Tests", ["timeit", "-n1", "-r1"])])
    assert checks.main([]) == 0
    shown = capfd.readouterr().out
    slept = re.search(r"best of 1: \d+ msec", shown)
    assert slept is not None
    assert shown.index("Tests: passed") < slept.start() < shown.index("Types: passed")


def test_a_check_that_a_program_can_satisfy_names_the_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "steps", lambda _: [("Format", ["nosuchmodule"])])
    assert checks.main([]) == 1
    assert "Format failed (exit code 1); repair it: .venv/bin/ruff format ." in capfd.readouterr().err


_INTERRUPTED = """\
import sys
from tools.local import checks
checks.steps = lambda _: [("Wait", ["sleeper"]), ("Later", ["timeit"])]
sys.exit(checks.main([]))
"""


@pytest.fixture
def interrupts_ignored() -> Iterator[None]:
    """As in a shell's background or under nohup, where programs inherit that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _heed_interrupts() -> None:
    """What Ctrl-C meets in a shell's foreground, wherever the tests run."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.usefixtures("interrupts_ignored")
@pytest.mark.parametrize(
    "sleeper",
    [
        "import time; print('ready', flush=True); time.sleep(60)",
        "import time\ntry: print('ready', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: exit('summary')",
    ],
    ids=["plain", "with last lines"],
)
def test_an_interrupt_ends_the_checks_quietly(tmp_path: Path, sleeper: str) -> None:
    (tmp_path / "sleeper.py").write_text(sleeper)
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED],
        cwd=state.ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_heed_interrupts,  # no other thread of the tests holds a lock that it needs
    ) as checking:
        assert checking.stdout is not None
        shown = [checking.stdout.readline(), checking.stdout.readline()]
        assert shown[1] == "ready\n", shown
        os.killpg(checking.pid, signal.SIGINT)
        rest = checking.communicate(timeout=30)[0]
    assert checking.returncode == 130
    assert rest.strip() == ("summary" if "summary" in sleeper else "")


def test_checks_do_not_see_the_stack_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKCLUSTER_ROOT_URL", "http://another-stack")
    monkeypatch.setattr(
        checks, "steps", lambda _: [("See", ["timeit", "-n1", "-r1", "import os; print(os.environ.keys())"])]
    )
    assert checks.main([]) == 0
    assert "TASKCLUSTER_ROOT_URL" not in capfd.readouterr().out
    assert "TASKCLUSTER_ROOT_URL" in os.environ
