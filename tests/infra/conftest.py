"""Fixtures for the hooks of azd."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.play import Play, stage


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """A stage on which everything is in place."""
    return stage(tmp_path)
