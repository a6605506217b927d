"""The tables of the design that follow from the code are as the command writes them, and nothing is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from local.design_tables import DOCUMENT, TABLES, written
from local.state import ROOT
from shared.base import remembered
from shared.base.memo import Remembered


def test_the_tables_are_as_they_are_written() -> None:
    text = DOCUMENT.read_text()
    for name, table in TABLES.items():
        assert f"<!-- end of {name} -->" in text
        assert table() in text, "run: .venv/bin/python -m local.design_tables"
    assert written(text) == text


def _kinds() -> Iterator[str]:
    """What the code makes memos of."""
    for path in sorted((ROOT / "shared").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Memo":
                attributes = [each for each in ast.walk(node.args[0]) if isinstance(each, ast.Attribute)]
                (name,) = {each.attr for each in attributes}
                yield name


def test_each_row_is_remembered_once_and_each_memo_has_a_row() -> None:
    names = {value.name: name for name, value in vars(remembered).items() if isinstance(value, Remembered)}
    assert len(names) == len(remembered.ALL)
    assert sorted(_kinds()) == sorted(names.values())


def test_each_row_says_where_it_is() -> None:
    modules = {f"{path.parent.name}/{path.stem}" for path in (ROOT / "shared").rglob("*.py")}
    assert {kind.name.partition(".")[0] for kind in remembered.ALL} <= modules
