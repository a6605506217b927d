"""Commands of the reference worker, as real processes: how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.local.stacks import wait
from worker.folders import locked
from worker.guard import MEMORY_ADJUSTMENT
from worker.process import GUARD_COMMAND, Processes, SpawnError

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def order(folder: Path, *command: str) -> dict[str, object]:
    """What the worker tells the guard, to run a command."""
    return {"run": command, "env": ENVIRONMENT, "folder": str(folder)}


async def run(folder: Path, *commands: Sequence[str], grace: float = 0.2, env: Mapping[str, str] = ENVIRONMENT) -> int:
    """Runs commands one after the other, their output in the file `log`; the last exit code."""
    with (folder / "log").open("ab", buffering=0) as log:
        processes = Processes(folder=folder, env=env, output=log.write, grace=grace)
        async with processes:
            return [await processes.run(command) for command in commands][-1]


async def shell(folder: Path, script: str, grace: float = 0.2) -> int:
    return await run(folder, ("sh", "-c", script), grace=grace)


def written(path: Path) -> Callable[[], bool]:
    return lambda: path.exists() and path.read_text().endswith("\n")


async def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met in time"
        await asyncio.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that no process has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return subprocess.run(["ps", "-p", str(pid)], capture_output=True, check=False).returncode != 0


async def ended(pid: int) -> None:
    """Waits for a process that has been killed: the system may take a moment."""
    await asyncio.to_thread(wait, lambda: has_ended(pid))


@pytest.mark.parametrize("code", [0, 1, 42])
async def test_the_exit_code(tmp_path: Path, code: int) -> None:
    assert await shell(tmp_path, f"exit {code}") == code


async def test_a_signal_is_negative(tmp_path: Path) -> None:
    assert await shell(tmp_path, "kill -TERM $$") == -signal.SIGTERM


async def test_a_command_that_kills_its_own_group(tmp_path: Path) -> None:
    assert await shell(tmp_path, "kill -KILL 0") == -signal.SIGKILL


async def test_output_goes_to_the_log_in_order_after_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    await shell(tmp_path, "echo out; echo err >&2; pwd; read line || echo no input")
    assert (tmp_path / "log").read_text() == f"before\nout\nerr\n{tmp_path}\nno input\n"


async def test_the_environment_is_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "yes")
    await run(tmp_path, ["env"], env={**ENVIRONMENT, "MINE": "1"})
    names = {line.split("=")[0] for line in (tmp_path / "log").read_text().splitlines()}
    assert {"MINE", "PATH"} <= names
    assert "SECRET_OF_THE_WORKER" not in names


@pytest.mark.parametrize(
    ("command", "mode", "reason"),
    [("nowhere/to/be/found", None, "malformed-payload"), ("./file", 0o644, "malformed-payload")],
)
async def test_what_cannot_be_started(tmp_path: Path, command: str, mode: int | None, reason: str) -> None:
    if mode is not None:
        (tmp_path / "file").touch(mode)
    with pytest.raises(SpawnError) as refused:
        await run(tmp_path, [command])
    assert refused.value.reason == reason


def test_a_shortage_is_not_the_tasks_fault() -> None:
    assert SpawnError(errno.EAGAIN).reason == "resource-unavailable"
    assert SpawnError(errno.EIO).reason == "internal-error"
    assert SpawnError(None).reason == "internal-error"


async def test_several_commands_are_one_task(tmp_path: Path) -> None:
    """What one leaves running, the next one finds."""
    first = "sleep 60 & echo $! > child; exit 3"
    assert await run(tmp_path, ("sh", "-c", first), ("sh", "-c", "kill -0 $(cat child)")) == 0
    await ended(int((tmp_path / "child").read_text()))


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open("daemon", "w") as file:
            print(os.getpid(), file=file)
        time.sleep(60)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a daemon is not found")
async def test_a_daemon_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    script = f"{sys.executable} -I -S daemon.py; until [ -s daemon ]; do sleep 0.02; done"
    assert await shell(tmp_path, script) == 0
    await ended(int((tmp_path / "daemon").read_text()))


async def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    assert await shell(tmp_path, "sleep 60 & echo $! > child") == 0
    await ended(int((tmp_path / "child").read_text()))


async def cancelled(folder: Path, script: str, grace: float) -> None:
    """Runs a script until it has written the file `child`, and cancels it."""
    running = asyncio.create_task(shell(folder, script, grace))
    await until(written(folder / "child"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await ended(int((folder / "child").read_text()))


async def test_cancelling_lets_a_command_clean_up(tmp_path: Path) -> None:
    script = "trap 'echo cleaned up; kill $!; exit' TERM; sleep 60 & echo $! > child; wait"
    await cancelled(tmp_path, script, grace=30)
    assert "cleaned up" in (tmp_path / "log").read_text()


async def test_cancelling_kills_a_command_that_does_not_listen(tmp_path: Path) -> None:
    await cancelled(tmp_path, "trap '' TERM; sleep 60 & echo $! > child; wait", grace=0.1)


def test_a_command_that_is_to_end_before_it_has_begun_does_not_begin(tmp_path: Path) -> None:
    """It would run for the whole grace period, since nothing of it was there to get the signal."""
    orders = ({"signal": int(signal.SIGTERM)}, order(tmp_path, "sleep", "10"))
    with subprocess.Popen(
        GUARD_COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    ) as guard:
        assert guard.stdin is not None and guard.stdout is not None
        guard.stdin.write("".join(f"{json.dumps(order)}\n" for order in orders).encode())
        guard.stdin.flush()
        assert json.loads(guard.stdout.readline()) == {"exitCode": -signal.SIGTERM}
        guard.stdin.close()
        guard.wait(15)


async def test_a_second_end_waits_for_the_processes_as_well(tmp_path: Path) -> None:
    """A run that is lost in the grace period after its maxRunTime: what it has goes to the next task."""
    running = asyncio.create_task(shell(tmp_path, "trap '' TERM; echo $$ > child; while :; do sleep 0.02; done", 1))
    await until(written(tmp_path / "child"))
    pid = int((tmp_path / "child").read_text())
    for _ in range(3):
        running.cancel()
        await asyncio.wait([running], timeout=0.05)
        assert not running.done()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert has_ended(pid)


async def test_what_is_locked_stays_so_until_the_guard_has_ended(tmp_path: Path) -> None:
    """Also when the worker dies meanwhile, and another one begins."""
    with locked(tmp_path / "of-the-guard") as lock:
        processes = Processes(folder=tmp_path, env=ENVIRONMENT, output=lambda _: None, grace=0.2, locks=[lock])
        await processes.__aenter__()
    with pytest.raises(BlockingIOError), locked(tmp_path / "of-the-guard"):
        pass
    assert await processes.run(["sh", "-c", "ls -l /proc/self/fd > seen"]) == 0
    assert "of-the-guard" not in (tmp_path / "seen").read_text()
    await processes.__aexit__(None, None, None)
    with locked(tmp_path / "of-the-guard"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such file")
async def test_where_memory_runs_out_the_task_goes_first(tmp_path: Path) -> None:
    assert await run(tmp_path, ["cat", "/proc/self/oom_score_adj"]) == 0
    assert int((tmp_path / "log").read_text()) >= int(MEMORY_ADJUSTMENT)


async def test_the_guard_has_nothing_of_the_tasks_environment(tmp_path: Path) -> None:
    env = {**ENVIRONMENT, "MARK": "of-the-task"}
    script = "tr '\\0' '\\n' < /proc/$PPID/environ > seen; echo $MARK >> seen"
    assert await run(tmp_path, ("sh", "-c", script), env=env) == 0
    assert (tmp_path / "seen").read_text() == "of-the-task\n"


@pytest.mark.parametrize("script", ["echo x; sleep 60", "echo x"], ids=["while it runs", "at its end"])
async def test_output_that_cannot_be_kept_ends_the_task(tmp_path: Path, script: str) -> None:
    def full(_: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        async with Processes(folder=tmp_path, env=ENVIRONMENT, output=full, grace=0.1) as processes:
            await processes.run(["sh", "-c", script])


async def test_a_command_that_kills_its_guard_is_ended(tmp_path: Path) -> None:
    assert await shell(tmp_path, "kill -KILL $PPID; sleep 60") == -signal.SIGKILL


async def test_a_great_deal_of_output_in_one_line(tmp_path: Path) -> None:
    assert await shell(tmp_path, "head -c 10000000 /dev/zero | tr '\\0' x; printf end") == 0
    assert (tmp_path / "log").stat().st_size == 10_000_003


COLLECTED_BY_THE_OTHER_THREAD = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from worker import guard
real = os.waitpid
def waitpid(pid, options):
    if options == 0:
        raise ChildProcessError
    return real(pid, options)
os.waitpid = waitpid
guard.main()
"""


def test_a_guard_ends_when_nothing_is_left_though_its_command_was_collected_elsewhere(tmp_path: Path) -> None:
    """As it may be while the guard ends the processes of a task: its other thread waits for each of them, too."""
    with subprocess.Popen(
        [sys.executable, "-c", COLLECTED_BY_THE_OTHER_THREAD], stdin=subprocess.PIPE, start_new_session=True
    ) as guard:
        assert guard.stdin is not None
        script = "echo $$ > shell; sleep 60"
        guard.stdin.write(json.dumps(order(tmp_path, "sh", "-c", script)).encode() + b"\n")
        guard.stdin.flush()
        wait(written(tmp_path / "shell"))
        guard.stdin.close()
        guard.wait(15)
    assert guard.returncode == -signal.SIGKILL
    pid = int((tmp_path / "shell").read_text())
    wait(lambda: has_ended(pid))


def test_a_command_does_not_outlive_its_worker(tmp_path: Path) -> None:
    """The guard's standard input ends when the worker dies, however it dies."""
    script = "sleep 60 & echo $! > child; echo $$ > shell; wait"
    with subprocess.Popen(
        GUARD_COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    ) as guard:
        assert guard.stdin is not None
        guard.stdin.write(json.dumps(order(tmp_path, "sh", "-c", script)).encode() + b"\n")
        guard.stdin.flush()
        wait(written(tmp_path / "shell"))
        guard.stdin.close()
        guard.wait(15)
    assert guard.returncode == -signal.SIGKILL
    for name in ("child", "shell"):
        pid = int((tmp_path / name).read_text())
        wait(lambda pid=pid: has_ended(pid))  # type: ignore[misc]  # mypy sees no type for a lambda's default
