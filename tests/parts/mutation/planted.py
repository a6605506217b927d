"""The plugin of pytest behind `./dev mutate`: bugs planted by hand, of which tests should notice each.

planted.json is the list, written by somebody who had read the code and none of the tests. A bug is planted in the
code that is loaded already. With `--plant NAME` the chosen tests run with that bug. With `--planted` they run once
without any, which shows which of them come to a function with a bug; then each bug is planted in a process of its own,
and those tests run until one fails.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
FAILED, SURVIVED, UNREACHED = "caught", "not caught", "no test comes to it"
_NOTE = "_note_planted"


@dataclass(frozen=True)
class Bug:
    """A replacement in one file; `kind` says what class of test it asks for."""

    kind: str
    name: str
    file: str
    old: str
    new: str

    @property
    def source(self) -> str:
        """Returns the content of the file."""
        return (ROOT / self.file).read_text()

    @property
    def function(self) -> str:
        """Qualified name of the function or method that the bug is in."""
        before, _, _ = self.source.partition(self.old)
        lines = len(before.splitlines()) + len(self.old) - len(self.old.lstrip("\n"))
        line = lines + (not before or before.endswith("\n"))
        functions = _functions(ast.parse(self.source))
        return next(name for name, node in functions if node.lineno <= line <= (node.end_lineno or 0))


BUGS = [Bug(**each) for each in json.loads((Path(__file__).parent / "planted.json").read_text())]


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _loaded(owner: ModuleType | type, module: str) -> Iterator[FunctionType]:
    for value in list(vars(owner).values()):
        bare = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if isinstance(bare, FunctionType) and bare.__module__ == module:
            yield bare
        elif isinstance(value, type) and value.__module__ == module:
            yield from _loaded(value, module)


def _forget() -> None:
    """Clears what tests have cached: it was computed by another test, or by code without the bug."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            for value in vars(module).values():
                if (clear := getattr(value, "cache_clear", None)) is not None:
                    clear()


def plant(bug: Bug) -> None:
    """Puts the bug into the loaded code."""
    _forget()
    _exchange(bug.file, ast.parse(bug.source.replace(bug.old, bug.new, 1)), {bug.function})


def _exchange(file: str, tree: ast.Module, names: set[str]) -> None:
    """Gives functions of a loaded module, and whatever refers to them, the code of this source."""
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    codes = {code.co_qualname: code for code in _codes(compile(tree, str(ROOT / file), "exec"))}
    for function in _loaded(module, module.__name__):
        if function.__code__.co_qualname in names:
            function.__code__ = codes[function.__code__.co_qualname]


class Planting:
    """The plugin of a run with `--planted`."""

    def __init__(self, bugs: list[Bug]) -> None:
        self._bugs = bugs
        self._test = ""
        self._tests: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._seconds: dict[str, float] = {}
        self._failed: list[str] = []

    def pytest_collection_finish(self) -> None:
        """Makes every function with a bug note that it is called."""
        setattr(builtins, _NOTE, lambda function: self._tests[function].setdefault(self._test))
        files: defaultdict[str, set[str]] = defaultdict(set)
        for bug in self._bugs:
            files[bug.file].add(bug.function)
        for file, names in files.items():
            tree = ast.parse((ROOT / file).read_text())
            for name, node in _functions(tree):
                if name in names:
                    node.body.insert(0, ast.parse(f"{_NOTE}({file + ' ' + name!r})").body[0])
            _exchange(file, ast.fix_missing_locations(tree), names)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Runs a test, and notes it as the caller of what is called meanwhile."""
        _forget()
        self._test, began = item.nodeid, time.process_time()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid], self._test = time.process_time() - began, ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the failure of any phase of a test."""
        if report.failed:
            self._failed.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Plants the bugs after the tests have run."""
        result = yield
        if not self._failed:
            items = {item.nodeid: item for item in session.items}
            fates = {bug.name: self._try(bug, items) for bug in self._bugs}
            report(self._bugs, fates)
            session.testsfailed = sum(not fate.startswith(FAILED) for fate in fates.values())
        return result

    def _try(self, bug: Bug, items: Mapping[str, pytest.Item]) -> str:
        reaching = [test for test in self._tests[f"{bug.file} {bug.function}"] if test in items]
        chosen = [items[test] for test in sorted(reaching, key=lambda test: self._seconds[test])]
        reading, writing = os.pipe()
        if not os.fork():
            plant(bug)
            for item in chosen:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self._failed:
                    os.write(writing, self._failed[0].encode())
                    break
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            by = answer.read()
        _, status = os.wait()
        fate = f"{FAILED}: {by or status}" if by or status else SURVIVED if chosen else UNREACHED
        print(f"\n{bug.kind}: {bug.name}: {fate}", flush=True)
        return fate


def report(bugs: list[Bug], fates: Mapping[str, str]) -> None:
    """Prints how many bugs of each kind are caught."""
    kinds = Counter(bug.kind for bug in bugs)
    caught = Counter(bug.kind for bug in bugs if fates[bug.name].startswith(FAILED))
    print("\n" + "\n".join(f"{kind}: {caught[kind]} of {count} are caught" for kind, count in kinds.items()))
    print(f"{caught.total()} of {len(bugs)} are caught")


class Planted:
    """The plugin of a run with `--plant`."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def pytest_collection_finish(self) -> None:
        """Plants the bug once all modules are loaded."""
        plant(self._bug)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the plugin's options."""
    parser.addoption("--planted", metavar="WORDS", help="plant each bug with these words in its name")
    parser.addoption("--kinds", default="", help="plant bugs of these kinds alone")
    parser.addoption("--plant", metavar="NAME", help="plant one bug")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin if an option asks for it."""
    words, name, kinds = (config.getoption(option) for option in ("--planted", "--plant", "--kinds"))
    if words is not None:
        chosen = [bug for bug in BUGS if words in bug.name and (not kinds or bug.kind in kinds.split())]
        config.pluginmanager.register(Planting(chosen))
    for bug in BUGS:
        if bug.name == name:
            config.pluginmanager.register(Planted(bug))
