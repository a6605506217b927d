"""Stands between the worker and a task's commands, so that no process of a task outlives its worker or its run.

The worker runs this file, and writes orders to its standard input, one JSON object a line:

* `{"run": ["program", …]}`: runs a command and answers how it ended, `{"exitCode": n}` (negative: the signal) or
  `{"errno": n}` if it did not start, as a line on standard output. `"user"`: as another user, of whom every process is
  then taken for one of the task.
* `{"signal": n}`: sends a signal to every process of the task, and starts no command any more.

When standard input ends, because the run is over or the worker has died, every process of the task is killed, and
this one too. On Linux orphans become children of this process (it is a "child subreaper"), so that daemons, which leave
their process group and session, are found as well. Elsewhere only the process group is.
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
from pathlib import Path
from typing import Any

Order = dict[str, Any]

PR_SET_CHILD_SUBREAPER = 36
PASSES = 100
"""Times that processes are looked for and killed at the end: a process may start others meanwhile."""


def main() -> None:
    """Follows orders until there are no more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A signal to the group is not for this process. A handler, since children would inherit that it is ignored.
    signal.signal(signal.SIGTERM, lambda *_: None)
    commands: queue.SimpleQueue[Order] = queue.SimpleQueue()
    starting, sent = threading.Lock(), list[int]()
    threading.Thread(target=_listen, args=(commands, starting, sent), daemon=True).start()
    while True:
        _say(_run(commands.get(), starting, sent))


def _run(order: Order, starting: threading.Lock, sent: "list[int]") -> dict[str, int | None]:
    """`sent`: signals so far. `starting` is held so that none comes between the look at them and the start."""
    as_user = order.get("user", {})
    with starting:
        if sent:
            return {"exitCode": -sent[0]}
        try:
            process = subprocess.Popen(order["run"], stdin=subprocess.DEVNULL, stdout=sys.stderr, **as_user)  # noqa: S603 - running it is the purpose
        except OSError as error:
            return {"errno": error.errno}
    while True:
        pid, status = os.waitpid(-1, 0)  # orphans too, which are no one else's to wait for
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
    for _ in range(PASSES):
        if not _send(signal.SIGKILL, user):
            break
    os.killpg(0, signal.SIGKILL)


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
            if state == b"Z":
                ended.add(int(name))
            if user is not None and Path(f"/proc/{name}").stat().st_uid == user:
                others.append(int(name))
    found, level = [], [ancestor]
    while level:
        level = [child for pid in level for child in children.get(pid, ())]
        found += level
    return [pid for pid in dict.fromkeys([*found, *others]) if pid not in ended]


if __name__ == "__main__":
    main()
