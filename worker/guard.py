"""Stands between the worker and a task's command, so that the command never outlives its worker.

The worker runs this file as the leader of a process group of its own. It starts the command in that group, says on
standard output how it ended, and stays until its standard input ends: because the worker has read the outcome, or
because it has died. Then it kills the group, itself included, and with it whatever the command has left behind.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> None:
    """Run it and say how it ended: `{"exitCode": n}` (negative: the signal), or `{"errno": n}` if it did not start."""
    threading.Thread(target=_end_with_worker, daemon=True).start()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)  # noqa: S603 - running it is the purpose
    except OSError as error:
        _say({"errno": error.errno})
    else:
        _say({"exitCode": process.wait()})
    threading.Event().wait()


def _say(outcome: dict[str, int | None]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the worker has died: the other thread sees it as well
        print(json.dumps(outcome), flush=True)


def _end_with_worker() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
