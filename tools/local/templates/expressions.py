"""What a Bicep file consists of: declarations, and expressions in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Expression:
    """Anything that has a value. `line` counts from 1."""

    line: int = field(kw_only=True, default=0)

    @cached_property
    def children(self) -> tuple[Expression, ...]:
        """The expressions that this one is directly made of."""
        return tuple(child for each in fields(self) for child in _in(getattr(self, each.name)))


@dataclass(frozen=True)
class Literal(Expression):
    """Literal number, boolean or null."""

    value: int | bool | None


@dataclass(frozen=True)
class Text(Expression):
    """A string: pieces and what is interpolated between them."""

    parts: tuple[str | Expression, ...]

    @property
    def plain(self) -> str | None:
        """The whole text; None if something is interpolated."""
        return None if any(isinstance(part, Expression) for part in self.parts) else "".join(map(str, self.parts))


@dataclass(frozen=True)
class Name(Expression):
    """A symbol of the file, or of Bicep itself."""

    name: str


@dataclass(frozen=True)
class Member(Expression):
    """Access to a member: `of.name` or `of[index]`. If it is safe (`.?`, `[?`), what is not there is null."""

    of: Expression
    index: Expression
    safe: bool = False


@dataclass(frozen=True)
class Call(Expression):
    """Call of a function, `function(arguments)`, or of a method if `of` is given."""

    function: str
    arguments: tuple[Expression, ...]
    of: Expression | None = None


@dataclass(frozen=True)
class Operation(Expression):
    """An operator and its operands; `?` has three."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Array(Expression):
    """An array, `[…]`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Object(Expression):
    """An object, `{…}`, whose keys are texts."""

    properties: tuple[tuple[Text, Expression], ...]


@dataclass(frozen=True)
class Loop(Expression):
    """A loop, `[for item, index in source: body]`, over the items that meet the condition."""

    item: str
    index: str | None
    source: Expression
    body: Expression
    condition: Expression | None


@dataclass(frozen=True)
class Lambda(Expression):
    """A lambda, `x => body`."""

    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True)
class Grouped(Expression):
    """An expression in parentheses."""

    body: Expression


@dataclass(frozen=True)
class Declaration:
    """A statement with a name. `target` is the type of a param, output or resource, or the path of a module."""

    kind: str
    name: str
    target: str
    value: Expression | None
    line: int
    decorators: tuple[Call, ...] = ()
    existing: bool = False
    condition: Expression | None = None

    def decorator(self, name: str) -> Call | None:
        """Returns the decorator of that name, if there is one."""
        return next((each for each in self.decorators if each.function == name), None)


@dataclass(frozen=True)
class File:
    """A Bicep file."""

    path: Path
    declarations: dict[str, Declaration]
    outputs: dict[str, Declaration]
    scope: str

    def of(self, kind: str) -> Iterator[Declaration]:
        """Declarations of one kind: param, var, resource, module, output."""
        source = self.outputs if kind == "output" else self.declarations
        return (each for each in source.values() if each.kind == kind)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields an expression and everything in it."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(each.children))


def _in(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _in(each)
