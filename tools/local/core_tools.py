"""Serves an app with Azure Functions Core Tools in the place of the local host: `python -m tools.local.core_tools`.

It takes the arguments of `tools.local.host`, says as that one does when requests are taken, and hands SIGINT on. So a
stack and its tests run on Microsoft's own host where the variable `HOST_MODULE` names this module (`./dev host-check`).
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO

from tools.local import state

PROGRAM = "func"
MISSING = (
    "Azure Functions Core Tools are not on the PATH. Install them with: "
    "npm install --global azure-functions-core-tools@4 --unsafe-perm true"
)
PACKAGE = "CORE_TOOLS_PACKAGE"
"""Variable with the folder of an unpacked package, which is served in the place of this repository."""

START_SECONDS = 55.0
_FUNCTION = re.compile(r"^\s+([\w-]+):\s+(?:\[[A-Z,]+\] )?(http|\w+Trigger)\b")


def main() -> int:
    """Serves until SIGINT; returns the exit code of Core Tools."""
    parser = argparse.ArgumentParser(prog="python -m tools.local.core_tools")
    parser.add_argument("--app-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments, _ = parser.parse_known_args()  # the others are about what only the local host can do
    if shutil.which(PROGRAM) is None:
        print(MISSING, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as the host itself
    port = arguments.port or _free_port()
    folder = arguments.app_dir if arguments.app_dir != state.ROOT else Path(os.environ.get(PACKAGE, state.ROOT))
    process = subprocess.Popen(
        [PROGRAM, "start", "--port", str(port)],
        cwd=folder,
        env={**os.environ, "FUNCTIONS_WORKER_RUNTIME": "python"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    signal.signal(signal.SIGINT, lambda *_: process.send_signal(signal.SIGINT))
    functions: list[tuple[str, str]] = []
    assert process.stdout is not None, "a pipe"
    threading.Thread(target=_read, args=(process.stdout, functions), daemon=True).start()
    _say_when_ready(process, port, functions)
    return process.wait()


def _read(output: IO[str], functions: list[tuple[str, str]]) -> None:
    """Pass on what Core Tools print, and note the functions that they list."""
    for line in output:
        print(line, end="", flush=True)
        if match := _FUNCTION.match(line):
            functions.append((match[1], match[2]))


def _say_when_ready(process: "subprocess.Popen[str]", port: int, functions: list[tuple[str, str]]) -> None:
    give_up = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        if functions and _answers(port):
            names = " ".join(name for name, trigger in functions if trigger != "http")
            print(f"local host: {len(functions)} functions on http://127.0.0.1:{port} ({names})", flush=True)
            return
        time.sleep(0.1)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/host/ping", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
