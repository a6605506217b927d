"""Stands between the worker and its tasks: it starts the process that works on a task, and ends all that is left of it.

The worker starts it once, before it claims anything. It has no token, and may be root: it alone changes what is outside
of a task's folder. It looks at nothing that a task has written. Its standard input is a socket, to which it first says
whether it can work: `{}`, or `{"refused": why}`. Then the worker sends orders, one JSON object a line. It answers each
by an object, what the system refuses by `{"errno": …}`.

* `{"run": name, "caches": {name: place}}`, with a socket to the worker: makes a folder with these caches, and forks the
  process that works on the task (runner.py): `{"folder": path, "caches": {name: whether it is new, or why it is not
  there}}`.
* `{"log": true}`, with a socket: another such process, for the log of a run whose first one was killed.
* `{"filled": true}`: new caches have what they are to begin with, and are kept; `{"purge": true}`: no cache is.
* `{"stop": seconds}`: tells every process of the task to end, and kills those that do not within so many seconds.
  `{"how": exit code of the process that worked on the task}`.
* `{"end": true}`, or the end of the worker: kills them, and puts everything back as it was before the run.
  `{"left": [what is not as it was, …]}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, BinaryIO

from worker import processes, runner
from worker.folders import WorkDirectory
from worker.users import PR_SET_CHILD_SUBREAPER, User, control, hide

Order = dict[str, Any]

LONGEST_PAUSE = 0.1
"""Seconds between two looks for processes at the end: killing one may take the system a moment."""


class Guard:
    """Follows the orders of one worker."""

    def __init__(self, control: socket.socket, work: WorkDirectory, user: User | None) -> None:
        self._control = control
        self._work = work
        self._user = user
        self._uid = None if user is None else user.uid
        self._unread, self._files = b"", list[int]()
        self._runner = 0
        self._how: int | None = None
        self._log: BinaryIO | None = None
        self._was_full = ""

    def serve(self) -> None:
        """Works until the worker has ended."""
        control(PR_SET_CHILD_SUBREAPER, 1)  # of processes that descend from it, and whose parent has ended
        self._kill()
        self._before = self._held()
        _say(self._control, {})
        while (order := self._order()) is not None:
            _say(self._control, self._obey(order))
        self._end()

    def _obey(self, order: Order) -> Order:
        """Does what is asked for; the answer."""
        match order:
            case {"run": _} | {"log": _}:
                return self._begin(order)
            case {"stop": seconds}:
                self._stop(seconds)
                return {"how": self._how}
            case {"end": _}:
                return {"left": self._end()}
        self._work.is_filled, self._work.is_purged = "filled" in order, "purge" in order
        return {}

    def _begin(self, order: Order) -> Order:
        """Starts the process that works on a task, with no other descriptors."""
        (connection,) = self._files
        folder, caches = Path(), dict[str, bool | str]()
        try:
            if "run" in order:
                if self._log is not None:
                    self._log.close()
                self._was_full, self._log = self._work.make_room(), self._work.log()
                folder, caches = self._work.begin(order["run"], order["caches"])
            assert self._log is not None, "a run has one"
            self._how, self._runner = None, os.fork()
            if self._runner == 0:
                kept = {0, 1, 2, connection, self._log.fileno()}
                for other in {int(name) for name in _descriptors()} - kept:
                    with contextlib.suppress(OSError):
                        os.close(other)
                runner.main(connection, self._log.fileno(), self._user)
        except OSError as problem:
            return {"errno": problem.errno or 0, "problem": problem.strerror or str(problem)}
        finally:
            os.close(connection)
            self._files.clear()
        return {"folder": str(folder), "caches": caches}

    def _stop(self, seconds: float) -> None:
        """Ends all processes of the task. The one that keeps its log comes last."""
        number, give_up = int(signal.SIGTERM), time.monotonic() + seconds
        while processes.send(number, os.getpid(), self._uid, spared=self._runner) and time.monotonic() < give_up:
            number = 0
            time.sleep(0.05)
            self._collect()
        time.sleep(0.05)  # for the last output, which it may be reading
        self._kill()

    def _end(self) -> list[str]:
        """Puts everything back; what is not as it was before the run."""
        self._kill()
        left = [self._work.put_back()]
        if not self._was_full:
            left.append(self._work.make_room())
        if (now := self._held()) != self._before:
            left.append(f"its guard has {now} descriptors, and had {self._before}")
        return [each for each in left if each]

    def _kill(self) -> None:
        """Kills every process of the task, and returns when none is left."""
        pause, is_parent = 0.001, True
        while True:
            if self._uid is not None:
                _kill_all_of(self._uid)
            left = processes.send(signal.SIGKILL, os.getpid(), self._uid)
            is_parent = self._collect()  # of one that forks and ends all the time, which may have been missed
            if not left and not is_parent:
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _collect(self, *_: object) -> bool:
        """Waits for children that have ended; whether there are others."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # there may be thousands
                if ended[0] == self._runner:
                    self._runner, self._how = 0, os.waitstatus_to_exitcode(ended[1])
            return True
        return False

    def _held(self) -> int:
        return len(_descriptors()) - (self._log is not None)

    def _order(self) -> Order | None:
        """The next order; None: the worker has ended. Meanwhile children that end are collected."""
        signal.signal(signal.SIGCHLD, self._collect)
        self._collect()
        try:
            while b"\n" not in self._unread:
                data, files, _, _ = socket.recv_fds(self._control, 1 << 16, 1)
                if not data:
                    return None
                self._unread += data
                self._files += files
        except ConnectionError:
            return None
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line, _, self._unread = self._unread.partition(b"\n")
        order: Order = json.loads(line)
        return order


def _say(control: socket.socket, what: Order) -> None:
    with contextlib.suppress(ConnectionError):  # the worker has ended: the next order says so
        control.sendall(json.dumps(what).encode() + b"\n")


def _kill_all_of(user: int) -> None:
    """Kills all processes of the user by one call, so that none can start another one meanwhile.

    This fails if the task has used up all processes, or stops each new process of its user. Then they are killed one by
    one.
    """
    try:
        pid = os.fork()
    except OSError:
        return
    if pid == 0:
        try:
            os.setreuid(user, user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    give_up = time.monotonic() + LONGEST_PAUSE
    while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < give_up:
        time.sleep(0.001)


def _descriptors() -> list[str]:
    return os.listdir("/dev/fd")  # noqa: PTH208 - names are what is wanted


def main(given: str) -> None:
    """Follows orders until there are no more. `given`: a JSON object of what WorkDirectory is made from."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # They end neither this process nor the one that it forks. Commands would inherit an ignored signal.
        signal.signal(number, lambda *_: None)
    hide()
    first = json.loads(given)
    user = None if first["user"] is None else User.of(first["user"])
    with socket.socket(fileno=os.dup(0)) as control:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        try:
            work = WorkDirectory(Path(first["work"]), user, first["keepFree"])
        except OSError as problem:
            _say(control, {"refused": str(problem)})
        else:
            Guard(control, work, user).serve()
