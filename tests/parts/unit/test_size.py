"""Each part of the repository has no more lines than its bar."""

from __future__ import annotations

import subprocess

import pytest

from tools.local.state import ROOT

PRODUCT, TESTS, ALL = ("shared/*.py", "functions/*.py", "function_app.py"), ("tests",), (".",)
WORKER = ("worker/*.py",)
NO_TEXT = tuple(f":(exclude,glob)**/*.{each}" for each in ("webp", "gz", "xz"))


def lines_of(*paths: str) -> int:
    """Returns the number of lines of all files that git tracks under these paths."""
    command = ["git", "ls-files", "-z", "--", *paths, *NO_TEXT]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [ROOT / name for name in listed.split("\0") if name]
    return sum(path.read_bytes().count(b"\n") for path in files if path.is_file())


@pytest.mark.parametrize(("paths", "most"), [(WORKER, 2_499), (PRODUCT, 29_954), (TESTS, 68_255), (ALL, 153_675)])
def test_no_part_grows(paths: tuple[str, ...], most: int) -> None:
    """No part has more lines than its bar; a change that adds takes away as much, or says why not."""
    assert 0 < lines_of(*paths) <= most
