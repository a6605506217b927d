"""The table of what a task may reach (docs/security.md): each cell names a test, or says what is not kept."""

from __future__ import annotations

import re

from tools.local.state import ROOT

TABLE = re.compile(r"^\| A task reaches \|.*?\n\n", re.MULTILINE | re.DOTALL)
SAID = ("not kept", "as with task users", "the same", "there is no", "gone with", "are the task's", "boundary")
"""What a cell may say in place of a test."""


def cells() -> list[str]:
    found = TABLE.search((ROOT / "docs" / "security.md").read_text())
    assert found is not None
    rows = found[0].strip().splitlines()[2:]
    return [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]


def all_tests() -> set[str]:
    pattern = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
    return {name for path in (ROOT / "tests").rglob("test_*.py") for name in pattern.findall(path.read_text())}


def test_every_test_that_it_names_exists() -> None:
    named = {name for cell in cells() for name in re.findall(r"`(test_\w+)`", cell)}
    assert len(named) > 15
    assert named <= all_tests()


def test_every_cell_names_a_test_or_says_what_is_not_kept() -> None:
    assert len(cells()) % 4 == 0
    silent = [cell for cell in cells() if "`test_" not in cell and not any(words in cell for words in SAID)]
    assert silent == []
