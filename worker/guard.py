"""Stands between the worker and its tasks: it starts the process that works on a task, and ends all that is left of it.

The worker starts it once, before it claims anything. It has no token, and may be root: it alone changes what is outside
of a task's folder. It looks at nothing that a task has written. Its standard input is a socket, over which the worker
sends orders, one JSON object a line. It answers each by an object, what the system refuses by `{"errno": …}`.

* `{"work": …, "user": …, "keepFree": …}` comes first. `{"refused": why}`: the work directory cannot be used.
* `{"run": name, "caches": {name: place}}`, with a socket to the worker: makes a folder with these caches, and forks the
  process that works on the task (runner.py): `{"folder": path, "caches": {name: whether it is new, or why it is not
  there}}`. When that process ends, it says `{"ended": how}`.
* `{"log": true}`, with a socket: another such process, for the log of a run whose first one was killed.
* `{"filled": true}`: new caches have what they are to begin with, and are kept; `{"purge": true}`: no cache is. It
  answers nothing.
* `{"stop": seconds}`: tells every process of the task to end, and kills those that do not within so many seconds.
* `{"end": true}`, or the end of the worker: kills them, and puts everything back as it was before the run.
  `{"left": [what is not as it was, …]}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, BinaryIO

from worker import processes, runner
from worker.folders import WorkDirectory
from worker.users import User, hide

Order = dict[str, Any]


class Guard:
    """Follows the orders of one worker."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._unread = b""
        self._files: list[int] = []
        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking)
        self._runner = 0
        self._log: BinaryIO | None = None
        self._before = self._held()
        self._was_full = ""

    def serve(self) -> None:
        """Works until the worker has ended."""
        first = self._order()
        if first is None:
            return
        self._user = None if first["user"] is None else User(**first["user"])
        try:
            self._work = WorkDirectory(Path(first["work"]), self._user, first["keepFree"])
        except OSError as problem:
            self._say(refused=str(problem))
            return
        processes.adopt()
        self._kill()
        self._before = self._held()
        self._say(ready=True)
        while (order := self._order()) is not None:
            if "run" in order or "log" in order:
                self._begin(order)
            elif "stop" in order:
                self._stop(order["stop"])
                self._say(stopped=True)
            elif "end" in order:
                self._say(left=self._end())
            else:
                self._work.is_filled, self._work.is_purged = "filled" in order, "purge" in order
        self._end()

    def _begin(self, order: Order) -> None:
        """Starts the process that works on a task."""
        (connection,) = self._files
        answer: Order = {"folder": "", "caches": {}}
        try:
            if "run" in order:
                if self._log is not None:
                    self._log.close()
                self._was_full, self._log = self._work.make_room(), self._work.log()
                folder, caches = self._work.begin(order["run"], order["caches"])
                answer = {"folder": str(folder), "caches": caches}
            self._fork(connection)
            self._say(**answer)
        except OSError as problem:
            self._say(errno=problem.errno or 0, problem=problem.strerror or str(problem))
        finally:
            os.close(connection)
            self._files.clear()

    def _stop(self, seconds: float) -> None:
        """Ends all processes of the task. The one that keeps its log comes last."""
        user, give_up = None if self._user is None else self._user.uid, time.monotonic() + seconds
        left = processes.send(signal.SIGTERM, os.getpid(), user, spared=self._runner)
        while left and time.monotonic() < give_up:
            time.sleep(0.05)
            self._collect()
            left = processes.send(0, os.getpid(), user, spared=self._runner)
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

    def _fork(self, connection: int) -> None:
        """Starts a process that has no other descriptors. Raises OSError."""
        assert self._log is not None, "a run has one"
        self._runner = os.fork()
        if self._runner == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            kept = {0, 1, 2, connection, self._log.fileno()}
            for other in {int(name) for name in _descriptors()} - kept:
                with contextlib.suppress(OSError):
                    os.close(other)
            runner.main(connection, self._log.fileno(), self._user)

    def _kill(self) -> None:
        processes.end_all(os.getpid(), None if self._user is None else self._user.uid)
        self._runner = 0

    def _collect(self) -> None:
        """Waits for children that have ended."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._runner:
                    self._say(ended=os.waitstatus_to_exitcode(ended[1]))

    def _held(self) -> int:
        return len(_descriptors()) - (self._log is not None)

    def _order(self) -> Order | None:
        """The next order; None: the worker has ended."""
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._control.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._collect()
            if self._control.fileno() in ready:
                data, files = b"", list[int]()
                with contextlib.suppress(ConnectionError):
                    data, files, _, _ = socket.recv_fds(self._control, 1 << 16, 1)
                self._unread += data
                self._files += files
                if not data:
                    return None
        line, _, self._unread = self._unread.partition(b"\n")
        order: Order = json.loads(line)
        return order

    def _say(self, **what: Any) -> None:
        with contextlib.suppress(ConnectionError):  # the worker has ended: the next order says so
            self._control.sendall(json.dumps(what).encode() + b"\n")


def _descriptors() -> list[str]:
    return os.listdir("/dev/fd")  # noqa: PTH208 - names are what is wanted


def main() -> None:
    """Follows orders until there are no more."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # They end neither this process nor the one that it forks. Commands would inherit an ignored signal.
        signal.signal(number, lambda *_: None)
    hide()
    with socket.socket(fileno=os.dup(0)) as control:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        Guard(control).serve()


if __name__ == "__main__":
    main()
