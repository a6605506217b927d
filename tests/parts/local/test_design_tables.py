"""The tables of the design that follow from the code are as the command writes them, and nothing is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from shared.base import remembered
from shared.base.memo import Remembered
from tools.local.design_tables import DOCUMENT, TABLES, written
from tools.local.state import ROOT


def test_the_tables_are_as_they_are_written() -> None:
    text = DOCUMENT.read_text()
    for name, table in TABLES.items():
        assert f"<!-- end of {name} -->" in text
        assert table() in text, "run: .venv/bin/python -m tools.local.design_tables"
    assert written(text) == text


@cache
def _modules() -> dict[str, ast.Module]:
    """Returns the modules of the app, by their paths."""
    paths = [path for folder in ("shared", "functions") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def _kinds() -> Iterator[str]:
    """Yields the names of the kinds that the code makes memos of."""
    for module in _modules().values():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Memo":
                attributes = [each for each in ast.walk(node.args[0]) if isinstance(each, ast.Attribute)]
                (name,) = {each.attr for each in attributes}
                yield name


def test_each_row_is_remembered_once_and_each_memo_has_a_row() -> None:
    names = {value.name: name for name, value in vars(remembered).items() if isinstance(value, Remembered)}
    assert len(names) == len(remembered.ALL)
    assert sorted(_kinds()) == sorted(names.values())
    assert all(f"| `{kind.name}` |" in TABLES["remembered"]() for kind in remembered.ALL), "each says what it is"


def test_each_row_says_where_it_is() -> None:
    modules = {f"{path.parent.name}/{path.stem}" for path in (ROOT / "shared").rglob("*.py")}
    assert {kind.name.partition(".")[0] for kind in remembered.ALL} <= modules


WIDTHS = {
    "in_waves": [0],
    "turns": [0, 1],
    "Scarce": [0],
    "Room": [0, 1],
    "Semaphore": [0],
    "ThreadPoolExecutor": [0],
    "limit_of": [1],
}
"""Functions that take the number of things done at a time, with the positions of those arguments."""
OF_WIDTHS = {"limit", "maxlen", "most_bytes", "most_waiting"}
"""Parameters that take a number of things: on a page, in a collection, at a time."""


def _numbers_as_widths(path: str, module: ast.Module) -> Iterator[str]:
    """Yields numbers of a module that it passes as a width, except for 1, which is no choice. Capacities of what is
    remembered, which have their own table, and of the few `lru_cache` are left out."""
    numbers = {
        target.id
        for node in module.body
        if isinstance(node, ast.Assign) and _is_number(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        widths: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            widths += [node.args[place] for place in WIDTHS.get(name, []) if place < len(node.args)]
            widths += [each.value for each in node.keywords if each.arg in OF_WIDTHS]
        elif isinstance(node, ast.arguments):
            by_place = [*node.posonlyargs, *node.args]
            named = zip(by_place[len(by_place) - len(node.defaults) :], node.defaults, strict=True)
            defaults = [*named, *zip(node.kwonlyargs, node.kw_defaults, strict=True)]
            given = [each for parameter, each in defaults if each is not None and parameter.arg in OF_WIDTHS]
            widths += [each for each in given if _is_number(each)]
        for width in widths:
            if _is_number(width) or (isinstance(width, ast.Name) and width.id in numbers):
                yield f"{path}:{width.lineno}: {ast.unparse(width)}"


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in {int, float} and value.value != 1


def test_how_much_is_done_at_a_time_is_said_in_one_place() -> None:
    """Every capacity, width or page size is a constant of shared/base/bounds.py, which states its reason."""
    assert [each for path, module in _modules().items() for each in _numbers_as_widths(path, module)] == []
