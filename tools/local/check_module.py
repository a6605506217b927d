"""Run a Python module that Ctrl-C ends without a traceback: `python -m tools.local.check_module MODULE [ARGUMENT]...`.

Tools that handle Ctrl-C themselves, as pytest does once it has started, still do so.
"""

import runpy
import sys

INTERRUPTED = 130
"""The exit code of a shell for a command that Ctrl-C has ended."""


def main() -> None:
    """Runs the module named by the first argument as `python -m` would."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    module = sys.argv[1]
    del sys.argv[0]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
