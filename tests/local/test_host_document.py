"""docs/functions-host.md: what it says was recorded has a test that exists, and that names the experiment."""

from __future__ import annotations

import ast
import re

from tools.local.state import ROOT

TEXT = (ROOT / "docs" / "functions-host.md").read_text()
TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
EXPERIMENT = re.compile(r"`((?:queue|fault|timer|blob|start|stop|worker|load)-[\w-]+)`")


def test_the_tests_exist() -> None:
    assert len(TESTS) > 40
    for path, name in TESTS:
        found = ast.walk(ast.parse((ROOT / path).read_text()))
        assert name in {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}, name


def test_the_tests_name_the_experiments() -> None:
    imitated = TEXT.partition("## Not imitated")[0]
    named = "".join((ROOT / path).read_text() for path in {path for path, _ in TESTS})
    missing = {name for name in EXPERIMENT.findall(imitated) if not re.search(rf"\b{name}\b", named)}
    assert missing == set()
    assert len(set(EXPERIMENT.findall(TEXT))) > 40
