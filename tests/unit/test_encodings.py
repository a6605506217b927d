"""Files and other programs are read and written as UTF-8, whatever the locale is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tools.local.state import ROOT

FOLDERS = ("shared", "functions", "tools", "worker", "docs/examples")


def _is_text(call: ast.Call) -> bool:
    """Whether it takes or gives text, as far as its form tells: `open` is a name of many things."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == "open":
        is_builtin = isinstance(call.func, ast.Name)
        return not _is_binary(call) and (is_builtin or [type(each) for each in call.args] == [ast.Constant])
    is_decoded = any(each.arg == "text" and getattr(each.value, "value", None) is True for each in call.keywords)
    return name in {"read_text", "write_text"} or is_decoded


def _is_binary(call: ast.Call) -> bool:
    modes = [
        each.value
        for each in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(each, ast.Constant)
    ]
    return any(isinstance(mode, str) and re.fullmatch("[rwxa+]*b[rwxa+]*", mode) for mode in modes)


def without_encoding(module: ast.Module) -> Iterator[ast.Call]:
    """Calls that would take the locale's encoding."""
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and _is_text(call) and all(each.arg != "encoding" for each in call.keywords):
            yield call


@pytest.mark.parametrize(
    "text",
    ["open(a)", "open(a, 'w')", "a.open('w')", "a.read_text()", "a.write_text(b)", "run(a, text=True)"],
)
def test_what_takes_the_locales_encoding_is_found(text: str) -> None:
    assert len(list(without_encoding(ast.parse(text)))) == 1
    given = f"{text[:-1]}{'' if text.endswith('()') else ', '}encoding='utf-8')"
    assert not list(without_encoding(ast.parse(given)))


@pytest.mark.parametrize(
    "text", ["open(a, 'rb')", "a.open('wb')", "vault.open(a, b)", "a.read_bytes()", "page(text=most)"]
)
def test_what_takes_none_is_not(text: str) -> None:
    assert not list(without_encoding(ast.parse(text)))


def test_no_file_is_opened_in_the_locales_encoding() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)[:80]}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "node_modules" not in path.parts
        for call in without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
