"""Finds a Python 3.13, the one that the app runs on in Azure."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

WANTED = (3, 13)
_DEBIAN_PACKAGE = "python3.13-venv"


def find() -> Path | None:
    """Returns an interpreter of Python 3.13 that runs, or None."""
    return next((candidate for candidate in _candidates() if _runs(candidate)), None)


def how_to_install() -> str:
    """Returns the command that installs it, if one is known."""
    if shutil.which("pyenv"):
        return "Install it with: pyenv install 3.13"
    if shutil.which("apt-cache"):
        known = subprocess.run(["apt-cache", "show", _DEBIAN_PACKAGE], capture_output=True, check=False)
        if known.returncode == 0:
            return f"Install it with: sudo apt-get install {_DEBIAN_PACKAGE} python3-pip"
    return "Install it with pyenv (`pyenv install 3.13`) or from https://www.python.org/downloads/"


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("python3.13")
    if on_path:
        yield Path(on_path)
    roots = [os.environ.get("PYENV_ROOT", ""), str(Path.home() / ".pyenv")]
    if shutil.which("pyenv"):
        roots.insert(
            0, subprocess.run(["pyenv", "root"], capture_output=True, encoding="utf-8", check=False).stdout.strip()
        )
    for root in dict.fromkeys(filter(None, roots)):
        yield from sorted(Path(root).glob("versions/3.13*/bin/python3.13"), reverse=True)


def _runs(interpreter: Path) -> bool:
    # A shim of pyenv's is on the PATH even if no version is chosen that it could run.
    test = f"import sys, venv; sys.exit(sys.version_info[:2] != {WANTED})"
    return subprocess.run([str(interpreter), "-c", test], capture_output=True, check=False).returncode == 0
