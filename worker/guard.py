"""Stands between the worker and a task's commands, so that no process of a task outlives its worker or its run.

The worker runs this file, and writes orders to its standard input, one JSON object a line:

* `{"run": ["program", …], "env": {…}, "folder": "…"}`: runs a command and answers how it ended, `{"exitCode": n}`
  (negative: the signal) or `{"errno": n}` if it did not start, as a line on standard output. `"user"`: runs it as
  another user. Then every process of this user counts as the task's, and no program gives it more rights.
* `{"signal": n}`: sends a signal to every process of the task, and starts no command any more.

When standard input ends, because the run is over or the worker has died, every process of the task is killed. This
process ends when none of them is left, and not before: its end releases its locks to the next task. On Linux orphans
become children of this process (it is a "child subreaper"), so that daemons, which leave their process group and
session, are found as well. Elsewhere only the process group is.

It may be root: it looks at no file of the task, and its own environment is not the task's.
"""

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

Order = dict[str, Any]

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
MEMORY_ADJUSTMENT = "500"
"""The system ends a task rather than its worker where memory runs out."""
LONGEST_PAUSE = 0.1
"""Seconds between two looks for processes at the end: killing one may take the system a moment."""


def main() -> None:
    """Follows orders until there are no more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(MEMORY_ADJUSTMENT, encoding="utf-8")
    # Signals to the process group must not end this process. The handler does nothing; children would inherit an
    # ignored signal.
    signal.signal(signal.SIGTERM, lambda *_: None)
    commands: queue.SimpleQueue[Order] = queue.SimpleQueue()
    starting, sent = threading.Lock(), list[int]()
    threading.Thread(target=_listen, args=(commands, starting, sent), daemon=True).start()
    while True:
        _say(_run(commands.get(), starting, sent))


def _run(order: Order, starting: threading.Lock, sent: "list[int]") -> dict[str, int | None]:
    """`sent`: signals so far. `starting` is a lock: no signal can come between the check for signals and the start."""
    as_user = order.get("user", {})
    if as_user and sys.platform == "linux":
        # No sudo, no cron or at jobs, no mounts of its own: by these a task could leave processes that are not ended.
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with starting:
        if sent:
            return {"exitCode": -sent[0]}
        try:
            process = subprocess.Popen(  # noqa: S603 - running it is the purpose
                order["run"],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                cwd=order["folder"],
                env=order["env"],
                **as_user,
            )
        except OSError as error:
            return {"errno": error.errno}
    while True:
        try:
            pid, status = os.waitpid(-1, 0)  # orphans too, which are no one else's to wait for
        except ChildProcessError:  # the other thread has collected it, and ends this process when nothing is left
            threading.Event().wait()
            continue
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return {"exitCode": process.returncode}


def _say(outcome: dict[str, int | None]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the worker has died: the other thread sees it as well
        print(json.dumps(outcome), flush=True)


def _listen(commands: "queue.SimpleQueue[Order]", starting: threading.Lock, sent: "list[int]") -> None:
    user = None
    with contextlib.suppress(ValueError):
        for line in sys.stdin:
            order = json.loads(line)
            if "run" in order:
                user = order.get("user", {}).get("user")
                commands.put(order)
            else:
                with starting:
                    sent.append(order["signal"])
                    _send(order["signal"], user)
    with starting:
        sent.append(signal.SIGKILL)
    pause = 0.001
    while _is_any_left(user):
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    os.killpg(0, signal.SIGKILL)


def _is_any_left(user: "int | None") -> bool:
    """Kills every process of the task; whether there was one that has not ended yet."""
    if user is not None:
        _kill_all_of(user)
    found = _send(signal.SIGKILL, user)
    if sys.platform != "linux":
        return False
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:  # orphans that have ended: there may be thousands
            pass
    except ChildProcessError:
        return found > 0
    # A process that forks and ends all the time may have been missed. But there still is a child of this process.
    return True


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
    with contextlib.suppress(ChildProcessError):  # the other thread has waited for it
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < give_up:
            time.sleep(0.001)


def _send(number: int, user: "int | None") -> int:
    """Sends a signal to every process that descends from this one, or is this user's; returns how many there were."""
    if not Path("/proc/self").is_dir():
        if number != signal.SIGKILL:
            os.killpg(0, number)
        return 0
    found = _processes(os.getpid(), user)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(found)


def _processes(ancestor: int, user: "int | None") -> list[int]:
    """Processes below one, parents first, and of a user; those that have ended and wait to be collected left out."""
    children: dict[int, list[int]] = {}
    ended, others = set(), []
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names are what is wanted
        with contextlib.suppress(OSError):
            state, parent = Path(f"/proc/{name}/stat").read_bytes().rsplit(b")", 1)[1].split()[:2]
            children.setdefault(int(parent), []).append(int(name))
            if state in (b"Z", b"X"):
                ended.add(int(name))
            if user is not None and user in _users(name):
                others.append(int(name))
    found, level = [], [ancestor]
    while level:
        level = [child for pid in level for child in children.get(pid, ())]
        found += level
    return [pid for pid in dict.fromkeys([*found, *others]) if pid not in ended]


def _users(name: str) -> list[int]:
    """The real, effective, saved and file system user of a process: the owner of its folder may be another one."""
    for line in Path(f"/proc/{name}/status").read_bytes().splitlines():
        if line.startswith(b"Uid:"):
            return [int(each) for each in line.split()[1:]]
    return []


if __name__ == "__main__":
    main()
