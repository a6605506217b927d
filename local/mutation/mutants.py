"""The mutants that mutmut has made, and what became of each, read from the files that it keeps in `mutants/`."""

import fnmatch
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from mutmut.stats import status_by_exit_code

FOLDER = "mutants"
SPANS_VERSION = 1
"""Version of mutmut's index of the lines of each mutant."""
KILLED = frozenset({"killed", "timeout", "segfault", "caught by type check"})
NOT_KILLED = frozenset({"survived", "no tests", "suspicious"})


@dataclass(frozen=True)
class Mutant:
    """A change of one function. `function` and `change` name it for good; mutmut's own `name` has a running number."""

    name: str
    path: Path
    function: str
    change: str
    original: str
    mutated: str
    status: str

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same when other functions, or other lines of this one, change."""
        return self.function, self.change


def read_mutants(root: Path) -> list[Mutant]:
    """All mutants of the sources that are there now. Raises ValueError if mutmut's files are of another version."""
    found: list[Mutant] = []
    for meta in sorted((root / FOLDER).rglob("*.py.meta")):
        path = meta.relative_to(root / FOLDER).with_suffix("")
        if (root / path).exists():
            found.extend(_read_file(root, path, json.loads(meta.read_text())["exit_code_by_key"]))
    return found


def _read_file(root: Path, path: Path, exit_codes: dict[str, int | None]) -> Iterable[Mutant]:
    index = json.loads((root / FOLDER / f"{path}.spans").read_text())
    if index["version"] != SPANS_VERSION:
        raise ValueError(f"{path}: mutmut's index is of version {index['version']}, not {SPANS_VERSION}")
    lines = (root / FOLDER / path).read_text().splitlines(keepends=True)

    def text(name: str, function: str) -> str:
        start, end = index["spans"][name]
        return "".join(lines[start - 1 : end]).replace(name, function, 1).strip("\n") + "\n"

    for name, exit_code in exit_codes.items():
        generated = name.rpartition(".")[2]
        mangled = generated.partition("__mutmut_")[0]
        owner, _, function = mangled.removeprefix("xǁ").rpartition("ǁ") if "ǁ" in mangled else ("", "", mangled[2:])
        original, mutated = text(f"{mangled}__mutmut_orig", function), text(generated, function)
        module = ".".join(path.with_suffix("").parts)
        yield Mutant(
            name=name,
            path=path,
            function=".".join(part for part in (module, owner, function) if part),
            change=change_of(original, mutated),
            original=original,
            mutated=mutated,
            status=status_by_exit_code[exit_code],
        )


def change_of(original: str, mutated: str) -> str:
    """The lines that differ, as in a diff and without their indentation."""
    old, new = original.splitlines(), mutated.splitlines()
    before = _common(old, new)
    after = _common(old[before:][::-1], new[before:][::-1])
    removed, added = old[before : len(old) - after], new[before : len(new) - after]
    return "\n".join([*(f"- {line.strip()}" for line in removed), *(f"+ {line.strip()}" for line in added)])


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))


def choose(mutants: Sequence[Mutant], patterns: Sequence[str], size: int | None, seed: int) -> list[Mutant]:
    """A sample of the functions that match a pattern. A seed chooses the same mutants for as long as they exist."""

    def rank(mutant: Mutant) -> tuple[str, str]:
        return hashlib.sha256(repr((seed, mutant.key)).encode()).hexdigest(), mutant.name

    fitting = [one for one in mutants if not patterns or any(fnmatch.fnmatchcase(one.function, p) for p in patterns)]
    return sorted(fitting, key=rank)[:size]


def forget_removed(root: Path) -> None:
    """Remove copies of sources and tests that are gone from the project: mutmut would go on running them."""
    for folder, _, files in os.walk(root / FOLDER):
        for name in files:
            copy = Path(folder, name)
            if copy.suffix == ".py" and not (root / copy.relative_to(root / FOLDER)).exists():
                copy.unlink()
