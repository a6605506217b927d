"""Every write of a row without a condition has a line in the table of design 15."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONDITION = {"Delete": 1, "Merge": 2, "Replace": 2}
"""Position of the ETag among an operation's arguments; without one, any row of that key is changed."""


def unconditional(tree: ast.AST, function: str = "") -> Iterator[str]:
    """Yields the functions that make operations without an ETag, once for each operation."""
    for node in ast.iter_child_nodes(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call) and _is_unconditional(node):
            yield function
        yield from unconditional(node, inside if is_function else function)


def _is_unconditional(call: ast.Call) -> bool:
    name = ast.unparse(call.func).removeprefix("tables.")
    if name == "Upsert":
        return True
    is_named = len(call.args) > CONDITION.get(name, -1) or any(word.arg == "etag" for word in call.keywords)
    return name in CONDITION and not is_named


def writers() -> set[str]:
    """Returns the writers as `folder/module.function`, or as the module for operations at module level."""
    found = set[str]()
    for path in sorted((ROOT / "shared").rglob("*.py")):
        text, module = path.read_text(), f"{path.parent.name}/{path.stem}"
        if any(name in text for name in ("Upsert", *CONDITION)):
            found |= {f"{module}.{function}" for function in unconditional(ast.parse(text)) if function}
    return found


@pytest.mark.parametrize(
    ("operation", "is_found"),
    [
        ("Upsert(key, {})", True),
        ("Delete(key)", True),
        ("tables.Delete(key)", True),
        ("Delete(key, etag)", False),
        ("Merge(key, {})", True),
        ("Merge(key, {}, etag)", False),
        ("Merge(key, {}, etag=etag)", False),
        ("Replace(key, {}, etag)", False),
        ("Create(key, {})", False),
    ],
)
def test_an_operation_without_a_condition_is_found(operation: str, is_found: bool) -> None:
    assert (["f"] if is_found else []) == list(unconditional(ast.parse(f"async def f():\n await g([{operation}])")))


def test_every_write_without_a_condition_says_in_the_design_why_a_late_one_is_harmless() -> None:
    section = (ROOT / "docs/design.md").read_text().split('<a id="design-15"></a>')[1]
    table = [line for line in section.splitlines() if line.startswith("| ") and "`" in line]
    listed = {name for line in table for name in re.findall(r"`([a-z_]+/[a-z_]+\.[a-z_]+)`", line.split("|")[2])}
    assert listed - {"tasks/create._drop_shared_row"} == writers()
    assert all(cell.strip() for line in table for cell in line.strip("|").split("|"))
