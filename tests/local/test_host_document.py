"""docs/functions-host.md: each rule has its source and a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from local.state import ROOT

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs" / "functions-host.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| Rule |", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", row[0])[:40])
def test_a_rule_has_a_source_and_a_test(row: list[str]) -> None:
    rule, source, test = row
    assert rule
    assert source
    path, _, name = test.strip("`").partition("::")
    names = {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in names


def test_no_test_stands_for_two_rules() -> None:
    assert len({test for *_, test in ROWS}) == len(ROWS) > 30
