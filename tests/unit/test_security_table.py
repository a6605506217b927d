"""The table of what a task may reach (docs/security.md): each row names the tests that show it."""

from __future__ import annotations

import re

from tools.local.state import ROOT

TABLE = re.compile(r"^\| A task reaches \|.*?\n\n", re.MULTILINE | re.DOTALL)


def rows() -> list[list[str]]:
    found = TABLE.search((ROOT / "docs" / "security.md").read_text())
    assert found is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[0].strip().splitlines()[2:]]


def all_tests() -> set[str]:
    pattern = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
    return {name for path in (ROOT / "tests").rglob("test_*.py") for name in pattern.findall(path.read_text())}


def test_every_row_names_tests_that_exist() -> None:
    assert len(rows()) > 8
    for row in rows():
        _, *answers, shown = row
        assert len(answers) == 2
        named = set(re.findall(r"`(test_\w+)`", shown))
        assert named, row
        assert named <= all_tests(), row
