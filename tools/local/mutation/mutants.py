"""Mutants: small changes of functions, as mutmut's operators make them."""

import ast
import fnmatch
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode


@dataclass(frozen=True)
class Spot:
    """A place where a mutant could be made: the `number`-th in its file, with the expression before and after."""

    path: Path
    number: int
    function: str
    before: str
    after: str

    def rank(self, seed: int) -> tuple[str, int]:
        """Position in a random order, which stays the same when other code changes."""
        key = repr((seed, self.function, self.before, self.after))
        return hashlib.sha256(key.encode()).hexdigest(), self.number


@dataclass(frozen=True)
class Mutant:
    """A change of one function, which `function` and `change` name for good."""

    path: Path
    function: str
    change: str
    original: str
    """The function as it is."""
    mutated: str
    """The function with the change."""
    source: str
    """The whole file with the change in it."""
    lines: frozenset[int]
    """Lines of the statement that is changed, in the unchanged file; for a default argument, of the whole function."""

    @property
    def key(self) -> tuple[str, str]:
        """A key that stays the same when other functions, or other lines of this one, change."""
        return self.function, self.change


def spots(root: Path, paths: Sequence[Path], leave: Sequence[str]) -> list[Spot]:
    """All that could be changed in these files."""
    with ProcessPoolExecutor() as pool:
        found = pool.map(partial(_spots_of, root, tuple(leave)), paths)
        return [spot for some in found for spot in some]


def choose(found: Sequence[Spot], patterns: Sequence[str], size: int | None, seed: int) -> list[Spot]:
    """A sample of the functions that match a pattern. A seed chooses the same ones for as long as they exist."""
    fitting = [one for one in found if not patterns or any(fnmatch.fnmatchcase(one.function, p) for p in patterns)]
    return sorted(fitting, key=lambda spot: spot.rank(seed))[:size]


def build(root: Path, wanted: Sequence[Spot], leave: Sequence[str]) -> list[Mutant]:
    """The mutants of these spots, in the same order."""
    numbers: defaultdict[Path, list[int]] = defaultdict(list)
    for spot in wanted:
        numbers[spot.path].append(spot.number)
    built = {path: _Module.read(root, path, leave).build(some) for path, some in numbers.items()}
    return [built[spot.path][spot.number] for spot in wanted]


def _spots_of(root: Path, leave: Sequence[str], path: Path) -> list[Spot]:
    return list(_Module.read(root, path, leave).spots())


class _Module:
    """A source file and its mutations."""

    def __init__(self, path: Path, source: str, leave: Sequence[str]) -> None:
        self._path = path
        self._source = source
        wrapper = MetadataWrapper(cst.parse_module(source))
        left = {
            number
            for number, line in enumerate(source.splitlines(), start=1)
            if any(re.search(pattern, line) for pattern in leave)
        }
        visitor = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), left))
        self._module = wrapper.visit(visitor)
        self._positions = wrapper.resolve(PositionProvider)
        self._names = dict(_functions(".".join(path.with_suffix("").parts), self._module))
        self._mutations: list[tuple[Mutation, cst.FunctionDef]] = [
            (mutation, function)
            for mutation in visitor.mutations
            if (function := mutation.contained_by_top_level_function) in self._names and function is not None
        ]

    @classmethod
    def read(cls, root: Path, path: Path, leave: Sequence[str]) -> "_Module":
        return cls(path, (root / path).read_text(), leave)

    def spots(self) -> Iterator[Spot]:
        for number, (mutation, function) in enumerate(self._mutations):
            before, after = map(self._module.code_for_node, (mutation.original_node, mutation.mutated_node))
            yield Spot(self._path, number, self._names[function], before.strip(), after.strip())

    def build(self, numbers: Sequence[int]) -> dict[int, Mutant]:
        return {number: self._built(*self._mutations[number]) for number in numbers}

    def _built(self, mutation: Mutation, function: cst.FunctionDef) -> Mutant:
        mutated = deep_replace(function, mutation.original_node, mutation.mutated_node)
        whole = deep_replace(self._module, mutation.original_node, mutation.mutated_node)
        assert isinstance(mutated, cst.FunctionDef), "a part of the function was replaced"
        assert isinstance(whole, cst.Module), "a part of the module was replaced"
        original, changed = (self._module.code_for_node(node).strip("\n") for node in (function, mutated))
        first = self._positions[mutation.original_node].start.line
        last = self._positions[mutation.original_node].end.line
        return Mutant(
            path=self._path,
            function=self._names[function],
            change=change_of(original, changed),
            original=original,
            mutated=changed,
            source=whole.code,
            lines=lines_of_statement(ast.parse(self._source), first, last),
        )


def _functions(module: str, tree: cst.Module) -> Iterator[tuple[cst.FunctionDef, str]]:
    for statement in tree.body:
        if isinstance(statement, cst.FunctionDef):
            yield statement, f"{module}.{statement.name.value}"
        elif isinstance(statement, cst.ClassDef):
            for each in statement.body.body:
                if isinstance(each, cst.FunctionDef):
                    yield each, f"{module}.{statement.name.value}.{each.name.value}"


def lines_of_statement(tree: ast.Module, first: int, last: int) -> frozenset[int]:
    """The lines of the innermost statement around some lines, without the statements in it.

    Of a function definition, all lines: its arguments are used anywhere in its body.
    """
    around = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= first and last <= _end(node)
    ]
    inner = max(around, key=lambda node: (node.lineno, -_end(node)))
    body: Sequence[ast.stmt] = getattr(inner, "body", ())
    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) or not body:
        return frozenset(range(inner.lineno, _end(inner) + 1))
    return frozenset(range(inner.lineno, max(body[0].lineno, last + 1)))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def change_of(original: str, mutated: str) -> str:
    """The lines that differ, as in a diff and without their indentation."""
    old, new = original.splitlines(), mutated.splitlines()
    before = _common(old, new)
    after = _common(old[before:][::-1], new[before:][::-1])
    removed, added = old[before : len(old) - after], new[before : len(new) - after]
    return "\n".join([*(f"- {line.strip()}" for line in removed), *(f"+ {line.strip()}" for line in added)])


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))
