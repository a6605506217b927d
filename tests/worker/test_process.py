"""Commands of the reference worker, as real processes: how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.stacks import wait
from worker.process import GUARD, SpawnError, TimedOut, execute

ENVIRONMENT = {"PATH": os.environ["PATH"]}


async def run(folder: Path, *command: str, seconds: float | None = 30) -> int:
    return await execute(command, folder=folder, env=ENVIRONMENT, log=folder / "log", seconds=seconds)


async def shell(folder: Path, script: str, seconds: float | None = 30) -> int:
    return await run(folder, "sh", "-c", script, seconds=seconds)


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
    await execute(["env"], folder=tmp_path, env={**ENVIRONMENT, "MINE": "1"}, log=tmp_path / "log", seconds=30)
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
        await run(tmp_path, command)
    assert refused.value.reason == reason


def test_a_shortage_is_not_the_tasks_fault() -> None:
    assert SpawnError(errno.EAGAIN).reason == "resource-unavailable"
    assert SpawnError(errno.EIO).reason == "internal-error"
    assert SpawnError(None).reason == "internal-error"


async def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    with pytest.raises(TimedOut):
        await shell(tmp_path, "sleep 60 & echo $! > child; echo $$ > shell; wait", seconds=1.5)
    for name in ("child", "shell"):
        await ended(int((tmp_path / name).read_text()))


async def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    assert await shell(tmp_path, "sleep 60 & echo $! > child") == 0
    await ended(int((tmp_path / "child").read_text()))


async def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    running = asyncio.create_task(shell(tmp_path, "sleep 60 & echo $! > child; wait"))
    await until(written(tmp_path / "child"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await ended(int((tmp_path / "child").read_text()))


def test_a_command_does_not_outlive_its_worker(tmp_path: Path) -> None:
    """The guard's standard input ends when the worker dies, however it dies."""
    script = "sleep 60 & echo $! > child; echo $$ > shell; wait"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    ) as guard:
        assert guard.stdin is not None
        wait(written(tmp_path / "shell"))
        guard.stdin.close()
        guard.wait(15)
    assert guard.returncode == -signal.SIGKILL
    for name in ("child", "shell"):
        pid = int((tmp_path / name).read_text())
        wait(lambda pid=pid: has_ended(pid))  # type: ignore[misc]  # mypy sees no type for a lambda's default
