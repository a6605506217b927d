"""What is deployed and what pipelines do is what was read and kept: no value, order or condition changes unseen."""

from __future__ import annotations

import difflib

import pytest

from tests.infra.kept.texts import FOLDER, TEXTS


@pytest.mark.parametrize("name", TEXTS)
def test_only_what_was_meant_has_changed(name: str) -> None:
    changed = list(difflib.unified_diff((FOLDER / name).read_text().splitlines(), TEXTS[name]().splitlines(), n=3))
    assert changed == [], "read what changes; if it is meant: python -m tests.infra.kept\n" + "\n".join(changed)
