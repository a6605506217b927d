"""Which tests reach which lines, found by one run of the tests, which also shows that they pass without a mutant.

The result is kept, since the run takes minutes. A test module is run again when it changes, and all are when the
sources change, or what the tests share.
"""

import hashlib
import json
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coverage import CoverageData

from tools.local.mutation import reach
from tools.local.mutation.copies import FOLDER, Copy
from tools.local.mutation.mutants import Mutant
from tools.local.mutation.settings import Settings

KEPT = "reach.json"
OUTPUT = 4000
"""Characters of pytest's output that are shown when a test fails without a mutant."""


class TestsFail(Exception):
    """The tests fail, or cannot be run, without a mutant; the message has the end of their output."""


@dataclass
class Reach:
    """Of each test its seconds, and of each line the tests that execute it."""

    durations: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that execute the statement of a mutant, the quickest first."""
        lines = self.lines.get(str(mutant.path), {})
        found = {test for line in mutant.lines for test in lines.get(line, ())}
        return sorted(found, key=lambda test: (self.durations.get(test, 0.0), test))

    def without(self, modules: Iterable[str]) -> "Reach":
        """This without what belongs to these test modules."""
        left_out = tuple(f"{module}::" for module in modules)

        def kept(tests: Iterable[str]) -> set[str]:
            return {test for test in tests if not test.startswith(left_out)}

        return Reach(
            durations={test: self.durations[test] for test in kept(self.durations)},
            lines={path: {line: kept(tests) for line, tests in of.items()} for path, of in self.lines.items()},
        )

    def add(self, other: "Reach") -> None:
        """Adds what another run has found."""
        self.durations |= other.durations
        for path, of in other.lines.items():
            lines = self.lines.setdefault(path, {})
            for line, tests in of.items():
                lines.setdefault(line, set()).update(tests)


def reach_of(root: Path, settings: Settings, copy: Copy, children: int) -> Reach:
    """What the tests reach. Those that are new or have changed are run. Raises TestsFail."""
    file = root / FOLDER / KEPT
    wanted = {module: _hash([root / module]) for module in _modules(root, settings)}
    everything = _hash(_others(copy.path, settings), repr((settings.mutate, settings.options)))
    known, hashes = _load(file, everything)
    changed = [module for module, content in wanted.items() if hashes.get(module) != content]
    if changed:
        print(f"finding out what {len(changed)} test modules reach", flush=True)
        known = known.without(changed)
        known.add(_record(root, settings, copy, changed, children))
        hashes = {module: content for module, content in hashes.items() if (root / module).exists()} | wanted
        _save(file, everything, known, hashes)
    return known.without(hashes.keys() - wanted.keys())


def _others(root: Path, settings: Settings) -> list[Path]:
    """Python files beside the sources and the tests, but for modules of tests."""
    folders = {name.partition("/")[0] for name in (*settings.mutate, *settings.tests)}
    files = [path for folder in sorted(folders) for path in (root / folder).rglob("*.py")]
    return [path for path in files if not path.name.startswith("test_")]


def _modules(root: Path, settings: Settings) -> list[str]:
    files = [file for name in settings.tests for file in _files(root / name)]
    return sorted({str(file.relative_to(root)) for file in files})


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


def _hash(paths: Sequence[Path], words: str = "") -> str:
    digest = hashlib.sha256(words.encode())
    for path in sorted(paths):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _record(root: Path, settings: Settings, copy: Copy, modules: Sequence[str], children: int) -> Reach:
    folder = root / FOLDER / "reach"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = [str(path) for path in settings.sources(root)]
    process = copy.start_pytest(
        [
            "-q",
            "-p",
            "tools.local.mutation.reach",
            "-n",
            str(children),
            "--dist",
            "worksteal",
            *settings.options,
            *modules,
        ],
        {reach.FOLDER_VARIABLE: str(folder), reach.SOURCES_VARIABLE: json.dumps(sources)},
    )
    try:
        output, _ = process.communicate()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if process.returncode != 0:
        raise TestsFail(f"the tests fail without a mutant\n{output[-OUTPUT:]}")
    return _recorded(folder, copy, sources)


def _recorded(folder: Path, copy: Copy, sources: Sequence[str]) -> Reach:
    found = Reach()
    for file in folder.glob(f"{reach.DURATIONS}.*"):
        found.durations |= json.loads(file.read_text())
    for file in folder.glob(f"{reach.DATA}.*"):
        data = CoverageData(str(file))
        data.read()
        for path in sources:
            lines: defaultdict[int, set[str]] = defaultdict(set)
            for line, contexts in data.contexts_by_lineno(str(copy.path / path)).items():
                lines[line] |= {context for context in contexts if context}
            found.add(Reach(lines={path: lines}))
    return found


def _load(file: Path, everything: str) -> tuple[Reach, Mapping[str, str]]:
    content = json.loads(file.read_text()) if file.exists() else {}
    if content.get("everything") != everything:
        return Reach(), {}
    tests = content["tests"]
    lines = {
        path: {int(line): {tests[number] for number in numbers} for line, numbers in of.items()}
        for path, of in content["lines"].items()
    }
    return Reach(content["durations"], lines), content["modules"]


def _save(file: Path, everything: str, found: Reach, modules: Mapping[str, str]) -> None:
    tests = sorted(found.durations)
    numbers = {test: number for number, test in enumerate(tests)}
    lines = {
        path: {line: sorted(numbers[test] for test in some) for line, some in of.items() if some}
        for path, of in found.lines.items()
    }
    content = {
        "everything": everything,
        "modules": modules,
        "tests": tests,
        "durations": found.durations,
        "lines": lines,
    }
    file.write_text(json.dumps(content))
