"""Writes the lock files: `python -m tools.local.locks`, or with `--upgrade-package NAME` or `--upgrade`.

requirements.txt has what the app needs. Locks that include it have only what comes in addition, in the versions that go
with it. Without an option uv keeps every version that is locked already.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.local.state import ROOT

APP, DEVELOPMENT = "requirements.txt", "requirements/dev.txt"
LOCKS = (
    (APP, ["requirements/app.in"], False),
    (DEVELOPMENT, ["requirements/dev.in"], True),
    ("requirements/notify.txt", ["requirements/app.in", "requirements/notify.in"], True),
    ("worker/requirements.txt", ["worker/requirements.in"], False),
    ("requirements/audit.txt", ["requirements/audit.in"], False),
)
"""The lock files, each with what it is made of, and whether it includes the app's."""
_HEAD = "# Written by `.venv/bin/python -m tools.local.locks`.\n"
_COMPILE = ["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--no-annotate", "--no-header"]
_FITS = re.compile(
    r"-(?:py2\.py3|py3\d*|cp311|cp312|cp313|cp3\d+-abi3)-(?:\S+-)?"
    r"(?:any|\S*manylinux\S*_(?:x86_64|aarch64)|macosx_\S+|win_amd64)\.whl$"
)
"""Matches the name of a wheel that somebody installs: for a Python that the project runs on, of Linux, macOS or
Windows. A package in C has a hundred others."""


def requirements(file: Path) -> list[str]:
    """Returns what a lock file names, without hashes: `name==version`, perhaps with a marker."""
    return re.findall(r"^([a-z0-9-]+==.+?) *\\?$", file.read_text(encoding="utf-8"), re.MULTILINE)


def main(options: list[str]) -> None:
    """Writes all lock files, the app's first."""
    for name, sources, includes in LOCKS:
        with tempfile.TemporaryDirectory() as folder:
            output, files = Path(folder, "lock.txt"), Path(folder, "pylock.toml")
            output.write_text("\n".join(requirements(ROOT / name)), encoding="utf-8")
            _compile(output, *options, *(["--constraints", APP] if includes else []), *sources)
            found = requirements(output)
            _compile(files, "--only-binary", ":all:", "--constraints", str(output), *sources)
            packages = tomllib.loads(files.read_text(encoding="utf-8"))["packages"]
        hashes = {f"{each['name']}=={each['version']}": sorted(_hashes(each["wheels"])) for each in packages}
        own = [each for each in found if not includes or each not in requirements(ROOT / APP)]
        head = _HEAD + (f"-r ../{APP}\n" if includes else "")
        text = "".join(_with_hashes(requirement, hashes) for requirement in own)
        (ROOT / name).write_text(head + text, encoding="utf-8")


def _compile(output: Path, *arguments: str) -> None:
    command = [str(ROOT / ".venv/bin/uv"), *_COMPILE, *arguments, "-o", str(output)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _hashes(wheels: list[dict[str, Any]]) -> Iterator[str]:
    for wheel in wheels:
        if _FITS.search(wheel["url"]):
            yield wheel["hashes"]["sha256"]


def _with_hashes(requirement: str, hashes: dict[str, list[str]]) -> str:
    """Returns the lines of a lock file for `name==version`, perhaps with a marker."""
    found = hashes[requirement.partition(" ;")[0]]
    if not found:
        raise SystemExit(f"{requirement}: there is no wheel of it that fits")
    return " \\\n    ".join([requirement, *(f"--hash=sha256:{each}" for each in found)]) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
