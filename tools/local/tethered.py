"""Run a Python module that ends with its parent: `python -m tools.local.tethered MODULE [ARGUMENT]...`.

The parent holds the other end of standard input. When that ends, the parent has gone, however it died; the module
then gets a SIGTERM (a SIGINT if it ignores that one), as in an orderly stop, and has `GRACE_SECONDS` to end. What it
started in its process group, of which it must be the leader, ends with it.
"""

import os
import runpy
import signal
import sys
import threading
import time

GRACE_SECONDS = 8.0


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGINT if signal.getsignal(signal.SIGTERM) == signal.SIG_IGN else signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Runs the module named by the first argument as `python -m` would."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    threading.Thread(target=_end_with_parent, name="tether", daemon=True).start()
    module = sys.argv[1]
    del sys.argv[:2]
    sys.argv.insert(0, module)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
