"""The repository stays small: each part has no more lines than it had when it was cut down."""

from __future__ import annotations

import subprocess

import pytest

from tools.local.state import ROOT

PRODUCT, TESTS, ALL = ("shared/*.py", "functions/*.py", "function_app.py"), ("tests",), (".",)
WORKER = ("worker/*.py",)
NO_TEXT = tuple(f":(exclude,glob)**/*.{each}" for each in ("webp", "gz", "xz"))


def lines_of(*paths: str) -> int:
    """The lines of all files that git tracks under these paths."""
    command = ["git", "ls-files", "-z", "--", *paths, *NO_TEXT]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [ROOT / name for name in listed.split("\0") if name]
    return sum(path.read_bytes().count(b"\n") for path in files if path.is_file())


@pytest.mark.parametrize(("paths", "most"), [(WORKER, 2_848), (PRODUCT, 32_345), (TESTS, 71_891), (ALL, 162_346)])
def test_no_part_grows(paths: tuple[str, ...], most: int) -> None:
    """Who adds more than is left takes away as much, or says in the commit why the part may grow."""
    assert 0 < lines_of(*paths) <= most
