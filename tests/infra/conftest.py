"""Fixtures: a stage for the hooks of azd, and the package."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from local import package
from tests.infra.packages import PYTHON
from tests.infra.play import Play, stage


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """A stage on which everything is in place."""
    return stage(tmp_path)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole package in an empty folder."""
    made = package.make(tmp_path_factory.mktemp("package"), python=PYTHON)
    folder = tmp_path_factory.mktemp("app")
    package.unpack(made.zip, folder)
    assert made.bill is not None
    shutil.copy(made.bill, folder / "bill.json")
    return folder
