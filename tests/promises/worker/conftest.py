"""Fixtures of the worker's tests."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.users import User


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yields a directory that every user can reach."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def user() -> User:
    """Returns a user that no other test process uses, nor the next: a user's processes are all ended with its task."""
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("only root can do something as another user")
    return User.of(str(2_000_000_000 + 10 * os.getpid()))
