"""The guard stands between the worker and its tasks: it starts the processes that work on a task (runner.py), and ends
all that is left of it.

The worker starts it once, before it claims anything, and has `Guard` to give it orders: the name of a method of
`Follower`, and what it takes. It has no token, and may be root: it alone changes what is outside of a task's folder. It
looks at nothing that a task has written. Its standard input is a connection to the worker. The answer to an order is
`{"done": …}`, or `{"problem": what the system lacks}`: JSON, since a task of the worker's own user may have taken over
who answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import IO, Any, Self

import psutil  # type: ignore[import-untyped]  # comes without types

from worker import runner
from worker.folders import WorkDirectory
from worker.options import Options
from worker.users import PR_SET_CHILD_SUBREAPER, User, as_user, hide, prctl

_CODE = "import sys; sys.path.append(sys.argv[1]); from worker.guard import main; main()"
COMMAND = (sys.executable, "-I", "-W", "ignore", "-X", "utf8", "-c", _CODE, str(Path(__file__).parents[1]))
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TASKCLUSTER_WORKER_LOCATION", "TASKCLUSTER_INSTANCE_TYPE")
"""What the guard, and so a command, sees of the worker's environment, which may have the token."""
PATIENCE = 10.0
"""Seconds for which the guard may say nothing after a task was to end."""
MOST_SECONDS = 600.0
"""How long the guard may take for anything: a task may have left millions of files."""
END_SECONDS = 4.0
"""How long the worker waits for it at its own end."""
LONGEST_PAUSE = 0.1
"""Seconds between two looks for processes at the end: killing one may take the system a moment."""


class GuardLost(Exception):
    """The guard has ended, or does not answer: nobody knows what is left of a task."""


class Guard:
    """Gives orders to the guard, which is started once, and ends with the worker."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._control, its_end = Pipe()
        with its_end:
            pipes: dict[str, Any] = {"stdin": its_end.fileno(), "stdout": DEVNULL}
            known = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
            self._process = Popen(COMMAND, env=known, cwd="/", start_new_session=True, **pipes)  # noqa: S603

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    async def __aenter__(self) -> Self:
        """Raises OSError where the work directory cannot be used, or tasks cannot have their user; GuardLost."""
        await self._order("start", dataclasses.replace(self._options, credentials={}))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tells the guard to end. It goes on alone if it takes longer."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._control.fileno())) as control:
            control.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for an answer
        self._control.close()
        with contextlib.suppress(TimeoutExpired):
            await asyncio.to_thread(self._process.wait, END_SECONDS)

    async def begin(self, run: str, caches: Mapping[str, str]) -> socket.socket:
        """Starts a process for a part of a run, with caches in place; a connection to it. Raises OSError, GuardLost."""
        mine, its = socket.socketpair()
        try:
            with its:
                await self._order("begin", run, caches, connection=its)
        except BaseException:
            mine.close()
            raise
        return mine

    async def stop(self, seconds: float) -> int | None:
        """Ends all processes of the task; how the one that works on it has ended. Raises GuardLost."""
        how: int | None = await self._order("stop", seconds, within=seconds + PATIENCE)
        return how

    async def end(self, *, filled: bool, purged: bool) -> list[str]:
        """Puts all back, caches as WorkDirectory.put_back says. Returns what is not as it was. Raises GuardLost."""
        left: list[str] = await self._order("end", filled, purged)
        return left

    async def _order(self, *order: Any, connection: socket.socket | None = None, within: float = MOST_SECONDS) -> Any:
        """Returns the answer. Raises OSError for what the guard lacks; GuardLost, also where it takes longer: a task of
        the worker's own user may have suspended it."""

        def ask() -> Any:
            self._control.send(order)
            if connection is not None:
                send_handle(self._control, connection.fileno(), None)
            return json.loads(self._control.recv_bytes())

        try:
            async with asyncio.timeout(within):
                answer = await asyncio.to_thread(ask)
        except (OSError, EOFError):
            self._process.kill()
            raise GuardLost("its guard has ended, or does not answer") from None
        if "problem" in answer:
            raise OSError(answer["problem"])
        return answer["done"]


class Follower:
    """Follows the orders of one worker: `start` at first; for each run `begin` and `stop` for its parts, then `end`."""

    def __init__(self, control: Connection) -> None:
        self._control, self._was_full = control, ""
        self._runner = 0
        self._how: int | None = None
        self._log: IO[bytes] | None = None
        """That of the run which has begun. It has no name: nothing of it is left behind, and no task can open it."""

    def serve(self) -> None:
        """Works until the worker has ended."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # of processes that descend from it, and whose parent has ended
        signal.signal(signal.SIGCHLD, self._collect)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                name, *given = self._control.recv()
                try:
                    answer = {"done": getattr(self, name)(*given)}
                except OSError as problem:
                    answer = {"problem": problem.strerror or str(problem)}
                self._control.send_bytes(json.dumps(answer).encode())
        if self._log is not None:
            self.end()

    def start(self, options: Options) -> None:
        """Makes the work directory what it is to be. Raises OSError."""
        self._options, self._user = options, options.task_user
        self._work = WorkDirectory(options.work_dir, self._user, options.keep_free << 20)
        self._kill(beside=True)
        self._before = psutil.Process().num_fds()

    def begin(self, run: str, caches: Mapping[str, str]) -> None:
        """Forks a process that works on a part of a run (runner.py), with a socket to the worker, which follows; before
        the first part it makes a folder with the caches, each at its place. Raises OSError."""
        connection = recv_handle(self._control)
        try:
            if self._log is None:
                self._was_full = self._work.make_room()
                self._log = tempfile.TemporaryFile(dir=self._options.work_dir, buffering=0)  # noqa: SIM115 - until `end`
                self._folder, self._caches = self._work.begin(run, caches)
            log = self._log.fileno()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it waits until the process ends by it
            self._how, self._runner = None, os.fork()
            if self._runner == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                names = os.listdir("/dev/fd")  # noqa: PTH208 - names are what is wanted
                for other in {int(name) for name in names} - {0, 1, 2, connection, log}:
                    with contextlib.suppress(OSError):
                        os.close(other)
                runner.main(connection, log, self._folder, self._caches, self._options)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            os.close(connection)

    def stop(self, seconds: float) -> int | None:
        """Tells every process of the task to end, and kills those that do not within so many seconds; the exit code of
        the process that worked on the task."""
        give_up = time.monotonic() + (seconds or 0.2)  # 0: it has done its part, and is soon gone
        if seconds > 0:
            _send(signal.SIGTERM, self._user)
        while self._collect() and time.monotonic() < give_up:
            time.sleep(0.005)
        self._kill()
        return self._how

    def end(self, filled: bool = False, purged: bool = False) -> list[str]:
        """Puts everything back, caches as WorkDirectory.put_back says; what is not as it was before the run."""
        self._kill(beside=True)
        if self._log is not None:
            self._log.close()
            self._log = None
        left = [self._work.put_back(filled=filled, purged=purged)]
        if not self._was_full:
            left.append(self._work.make_room())
        if (now := psutil.Process().num_fds()) != self._before:
            left.append(f"its guard has {now} descriptors, and had {self._before}")
        return [each for each in left if each]

    def _kill(self, *, beside: bool = False) -> None:
        """Kills every process that descends from this one, and returns when none is left. `beside`: makes sure that
        none of the tasks' user is."""
        pause = 0.001
        while (self._collect() or beside) and _send(signal.SIGKILL, self._user):
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _collect(self, *_: object) -> bool:
        """Waits for children that have ended; whether there are others. Each process that descends from this one, and
        whose parent has ended, is one."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # there may be thousands
                if ended[0] == self._runner:
                    self._runner, self._how = 0, os.waitstatus_to_exitcode(ended[1])
            return True
        return False


def _send(number: int, user: User | None) -> int:
    """Sends a signal to every process that descends from this one, and to those of a user; how many were looked at."""
    if user is not None:
        # All by one call: none can start another one meanwhile, and it is soon done however many are busy. This fails
        # if the task has used up all processes, or stops each new process of its user. Then they are killed one by one.
        with contextlib.suppress(OSError):
            as_user(user, lambda: os.kill(-1, number), LONGEST_PAUSE)
        if number != signal.SIGKILL:
            return 0
    found = psutil.Process().children(recursive=True)
    if user is not None:
        all_of_them = psutil.process_iter(["status", "uids"])
        others = [each for each in all_of_them if user.uid in (each.info["uids"] or ())]
        found += [each for each in others if each.info["status"] not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)]
    for each in found:
        with contextlib.suppress(psutil.Error):
            each.send_signal(number)
    return len(found)


def main() -> None:
    """Follows orders until there are no more."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # They end neither this process nor those that it forks. Commands would inherit an ignored signal.
        signal.signal(number, lambda *_: None)
    hide()
    os.environ.pop("LC_CTYPE", None)  # Python has set it where it found no locale; no command is to see it
    with Connection(os.dup(0)) as control:
        with Path(os.devnull).open("rb") as null:
            os.dup2(null.fileno(), 0)
        Follower(control).serve()
