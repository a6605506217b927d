"""A search for the name of a function of the app finds few places."""

from __future__ import annotations

import ast
from collections import defaultdict

from tools.local.state import ROOT

MOST = 8
"""The most functions of one name: as many as a reader looks through."""

CONSTRUCTORS = {"of"}
"""Class methods that build a value of their class, by one name everywhere."""


def test_no_name_stands_for_many_functions() -> None:
    """A name that stands for more functions is made longer: what is read, written or deleted is said in it."""
    places = defaultdict(list)
    for folder in ("functions", "shared"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                    places[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 1000
    assert {name: found for name, found in places.items() if len(found) > MOST and name not in CONSTRUCTORS} == {}
