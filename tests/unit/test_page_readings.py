"""Whoever reads page after page does so by `shared/store/partitions.py`, and has a row in the table of design 13."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ITERATOR = Path("shared/store/partitions.py")
LAYERS = ("shared", "functions", "tools/admin")
FOLLOWS = {"PageReader", "rows_of"}
"""What reads page after page."""
SCANS = {"list_entities", "query_entities"}
"""The SDK's own, which goes through whole tables: for the operator's commands alone."""
SCANNED_IN = {"tools/admin/backup.py", "tools/admin/verification/table_checks.py"}
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
PAGE = re.compile(r"tuple\[.*, str \| None\]")


def modules() -> dict[Path, ast.Module]:
    found = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
    return {path.relative_to(ROOT): ast.parse(path.read_text()) for path in found}


MODULES = modules()


@cache
def readers_of_a_page() -> set[str]:
    """The stores' functions that return a page, and where the next one starts."""
    return {
        node.name
        for path, tree in MODULES.items()
        if path.parts[0] == "shared" and path.stem != "endpoints"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.returns is not None
        and PAGE.fullmatch(ast.unparse(node.returns))
    }


def called(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None


def in_loops(node: ast.AST, *, is_in_loop: bool = False) -> Iterator[ast.AST]:
    """What a loop does again and again; what it goes through is read once."""
    if is_in_loop:
        yield node
    for field, value in ast.iter_fields(node):
        is_repeated = isinstance(node, LOOPS) and field not in {"iter", "generators", "orelse"}
        inside = not isinstance(node, FUNCTIONS) and (is_in_loop or is_repeated)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from in_loops(child, is_in_loop=inside)


def followed_by_hand(tree: ast.AST) -> list[int]:
    """Lines at which a loop awaits a page of rows, or a page and where the next one starts."""
    names = readers_of_a_page()
    found = []
    for node in in_loops(tree):
        if (isinstance(node, ast.Await) and called(node.value) == "query") or (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Await)
            and called(node.value.value) in names
        ):
            found.append(node.lineno)
    return found


def test_nobody_follows_pages_by_hand() -> None:
    found = {str(path): followed_by_hand(tree) for path, tree in MODULES.items() if path != ITERATOR}
    assert not {path: lines for path, lines in found.items() if lines}, "read them with PageReader or rows_of"


@pytest.mark.parametrize("source", ["page = await t.query(at)", "rows, at = await s.page_of_all(at)"])
def test_a_page_that_is_read_in_a_loop_is_found(source: str) -> None:
    assert followed_by_hand(ast.parse(f"async def f():\n while at:\n  {source}"))
    assert not followed_by_hand(ast.parse(f"async def f():\n {source}"))


def test_whole_tables_are_read_by_operators_alone() -> None:
    scanning = {
        path.as_posix() for path, tree in MODULES.items() if any(called(node) in SCANS for node in ast.walk(tree))
    }
    assert scanning <= SCANNED_IN


def _module(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}" if path.parts[0] == "shared" else path.stem


def users() -> set[str]:
    """Functions that read page after page, as `folder/module.function`."""
    return {
        f"{_module(path)}.{function.name}"
        for path, tree in MODULES.items()
        if path != ITERATOR
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(called(node) in FOLLOWS for node in ast.walk(function))
    }


def test_every_user_says_in_the_design_what_bounds_it() -> None:
    section = (ROOT / "docs/design.md").read_text().split('<a id="design-13"></a>')[1].split("<a id=")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    listed = {name for line in table for name in re.findall(r"`((?:[a-z_]+/)?[a-z_]+\.[a-z_]+)`", line.split("|")[1])}
    assert listed == users()
    assert all(cell.strip() for line in table for cell in line.strip("|").split("|"))
