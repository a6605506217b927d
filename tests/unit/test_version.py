"""The version comes from pyproject.toml and from nowhere else."""

import re
from pathlib import Path

from shared.base.version import VERSION


def test_the_version_is_the_one_of_the_project() -> None:
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert f'\nversion = "{VERSION}"\n' in project


def test_the_version_is_a_semantic_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", VERSION)
