"""A real OpenID Connect provider on this machine, for tests of signing in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.local.state import ROOT

_PROGRAM = Path(__file__).with_name("issuer.mjs")


@contextmanager
def running_issuer(port: int, callback: str, *, name: str | None = None, hours_late: int = 0) -> Iterator[str]:
    """Yields the address of a provider that sends people back to `callback`. Its issuer is that address, or `name`."""
    address = f"http://127.0.0.1:{port}"
    command = ["node", str(_PROGRAM), str(port), callback, name or address, str(hours_late)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert any(line == "ready\n" for line in process.stdout), "the provider did not start"
            yield address
        finally:
            process.terminate()
