"""docs/functions-host.md: each rule has its source and a test that exists."""

from __future__ import annotations

import ast
from functools import cache

from tools.local.state import ROOT

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs" / "functions-host.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| Rule |", "|---"))
]


def test_a_rule_has_a_source_and_a_test() -> None:
    for rule, source, test in ROWS:
        assert rule, test
        assert source, rule
        path, _, name = test.strip("`").partition("::")
        assert name in functions(path), rule


@cache
def functions(path: str) -> set[str]:
    """The names of a module's functions."""
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_test_stands_for_two_rules() -> None:
    assert len({test for *_, test in ROWS}) == len(ROWS) > 30
