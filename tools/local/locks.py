"""Writes the lock files: `python -m tools.local.locks`, or with `--upgrade-package NAME` or `--upgrade`.

requirements.txt has what the app needs. Locks that include it have only what comes in addition, in the versions that go
with it. Without an option uv keeps every version that is locked already.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.local.state import ROOT

APP, DEVELOPMENT = "requirements.txt", "requirements/dev.txt"
LOCKS = (
    (APP, ["requirements/app.in"], False),
    (DEVELOPMENT, ["requirements/dev.in"], True),
    ("requirements/notify.txt", ["requirements/app.in", "requirements/notify.in"], True),
    ("worker/requirements.txt", ["worker/requirements.in"], False),
    ("requirements/audit.txt", ["requirements/audit.in"], False),
)
"""Each with what it is made of, and whether it includes the app's."""
_HEAD = "# Written by `.venv/bin/python -m tools.local.locks`.\n"
_COMPILE = ["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--no-annotate", "--no-header"]


def blocks(name: str) -> dict[str, str]:
    """By package: its lines in a lock file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([a-z0-9-]+)(==.*(?:\n    --hash=.*)+\n)", text, re.MULTILINE)
    return {package: package + rest for package, rest in found}


def main(options: list[str]) -> None:
    """Write them all, the app's first."""
    for name, sources, includes in LOCKS:
        known = blocks(name) if "audit" in name else {**blocks(APP), **blocks(DEVELOPMENT), **blocks(name)}
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "lock.txt")
            output.write_text("".join(known.values()), encoding="utf-8")
            command = [
                str(ROOT / ".venv/bin/uv"),
                *_COMPILE,
                "--generate-hashes",
                *options,
                *sources,
                "-o",
                str(output),
            ]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            text = output.read_text(encoding="utf-8")
        if includes:
            for block in blocks(APP).values():
                text = text.replace(block, "")
            text = f"-r ../{APP}\n{text}"
        (ROOT / name).write_text(_HEAD + text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
