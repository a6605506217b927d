"""Reads a Bicep file with tree-sitter's grammar."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import tree_sitter
import tree_sitter_bicep

from tools.local.templates.expressions import (
    Array,
    Call,
    Declaration,
    Expression,
    File,
    Grouped,
    Lambda,
    Literal,
    Loop,
    Member,
    Name,
    Object,
    Operation,
    Text,
)

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bicep.language()))
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class SyntaxFault(ValueError):
    """The file cannot be read; the message has its place."""


def read(path: Path) -> File:
    """Parses a file. Raises SyntaxFault."""
    return replace(_read(path.name, path.read_bytes()), path=path)


@functools.lru_cache(maxsize=256)
def _read(name: str, source: bytes) -> File:
    tree = _PARSER.parse(source)
    for node in _nodes(tree.root_node):
        if node.is_error or node.is_missing:
            raise SyntaxFault(f"{name}:{node.start_point[0] + 1}: this cannot be parsed")
    return _Reader(Path(name), source).file(tree.root_node)


def _nodes(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


class _Reader:
    """Turns tree-sitter's nodes into declarations and expressions."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.path, self.source = path, source

    def text(self, node: tree_sitter.Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode()

    def file(self, root: tree_sitter.Node) -> File:
        found: dict[str, dict[str, Declaration]] = {"output": {}, "": {}}
        scope = "resourceGroup"
        decorators: tuple[Call, ...] = ()
        for node in root.named_children:
            kind = node.type.partition("_")[0]
            if node.type == "decorators":
                decorators = tuple(self._decorator(each) for each in node.named_children)
                continue
            if node.type == "target_scope_assignment":
                scope = self._string(node.named_children[0]).plain or ""
            elif node.type in _DECLARATIONS:
                made = self._declaration(_DECLARATIONS[node.type], node, decorators)
                group = found["output" if made.kind == "output" else ""]
                if made.name in group:
                    raise SyntaxFault(f"{self.path.name}:{made.line}: {made.name} is declared twice")
                group[made.name] = made
            elif node.type not in _COMMENTS:
                raise SyntaxFault(f"{self.path.name}:{node.start_point[0] + 1}: {kind} is unknown to this check")
            decorators = ()
        return File(self.path, found[""], found["output"], scope)

    def _decorator(self, node: tree_sitter.Node) -> Call:
        call = self.expression(node.named_children[0])
        assert isinstance(call, Call)
        return call

    def _declaration(self, kind: str, node: tree_sitter.Node, decorators: tuple[Call, ...]) -> Declaration:
        parts = [child for child in node.named_children if child.type not in _COMMENTS]
        name, target, rest = self.text(parts[0]), "", parts[1:]
        if kind in ("param", "output"):
            target, rest = self.text(rest[0]), rest[1:]
        elif kind in ("resource", "module"):
            target, rest = self._string(rest[0]).plain or "", rest[1:]
        condition = None
        if rest and rest[0].type == "if_statement":
            condition = self.expression(rest[0].named_children[0])
            rest = rest[0].named_children[1:]
        return Declaration(
            kind=kind,
            name=name,
            target=target,
            value=self.expression(rest[0]) if rest else None,
            line=node.start_point[0] + 1,
            decorators=decorators,
            existing=any(child.type == "existing" for child in node.children),
            condition=condition,
        )

    def expression(self, node: tree_sitter.Node) -> Expression:
        """Returns the expression of a node."""
        line = node.start_point[0] + 1
        make = _MAKERS.get(node.type)
        if make is None:
            raise SyntaxFault(f"{self.path.name}:{line}: {node.type} is unknown to this check")
        return make(self, [child for child in node.named_children if child.type not in _COMMENTS], node, line)

    def _string(self, node: tree_sitter.Node) -> Text:
        parts: list[str | Expression] = []
        quotes = len(self.text(node.children[0]))
        position = node.start_byte + quotes
        # The grammar drops some escapes: what lies between the children belongs to the text.
        for child in [*node.named_children, node.children[-1]]:
            if child.start_byte > position:
                parts.append(_unescaped(self.source[position : child.start_byte].decode()))
            if child.type == "interpolation":
                parts.append(self.expression(child.named_children[0]))
            elif child.is_named:
                text = self.text(child)
                parts.append(text if quotes == 3 else _unescaped(text))
            position = child.end_byte
        return Text(tuple(parts), line=node.start_point[0] + 1)

    def _key(self, node: tree_sitter.Node) -> Text:
        if node.type == "string":
            return self._string(node)
        return Text((self.text(node),), line=node.start_point[0] + 1)

    def _loop(self, parts: list[tree_sitter.Node], line: int) -> Loop:
        names = list(parts[0].named_children) if parts[0].type == "for_loop_parameters" else parts[:1]
        body, condition = parts[2], None
        if body.type == "if_statement":
            condition, body = self.expression(body.named_children[0]), body.named_children[1]
        index = self.text(names[1]) if len(names) > 1 else None
        return Loop(self.text(names[0]), index, self.expression(parts[1]), self.expression(body), condition, line=line)

    def _call(self, parts: list[tree_sitter.Node], line: int) -> Expression:
        arguments = tuple(self.expression(each) for each in parts[1].named_children)
        if parts[0].type != "member_expression":
            return Call(self.text(parts[0]), arguments, line=line)
        of, name = parts[0].named_children
        return _postfix(self.expression(of), lambda on: Call(self.text(name), arguments, on, line=line))

    def _member(self, parts: list[tree_sitter.Node], line: int) -> Expression:
        of, index, safe = self.expression(parts[0]), self._key(parts[1]), self._is_safe(parts)
        return _postfix(of, lambda on: Member(on, index, safe, line=line))

    def _subscript(self, parts: list[tree_sitter.Node], line: int) -> Expression:
        of, index, safe = self.expression(parts[0]), self.expression(parts[1]), self._is_safe(parts)
        return _postfix(of, lambda on: Member(on, index, safe, line=line))

    def _is_safe(self, parts: list[tree_sitter.Node]) -> bool:
        return b"?" in self.source[parts[0].end_byte : parts[1].start_byte]

    def _array(self, parts: list[tree_sitter.Node], line: int) -> Array:
        """Reads an array. Raises SyntaxFault where the grammar takes one item for two: `[call(x).member]`."""
        for before, after in pairwise(parts):
            if not re.search(rb"[,\n]", self.source[before.end_byte : after.start_byte]):
                raise SyntaxFault(
                    f"{self.path.name}:{line}: write this list without [ ], as array(…): it cannot be parsed"
                )
        return Array(tuple(map(self.expression, parts)), line=line)

    def _object(self, parts: list[tree_sitter.Node], line: int) -> Object:
        pairs = ([child for child in each.named_children if child.type not in _COMMENTS] for each in parts)
        properties = tuple((self._key(pair[0]), self.expression(pair[1])) for pair in pairs)
        seen: set[str] = set()
        for key, _ in properties:
            if key.plain in seen:
                raise SyntaxFault(f"{self.path.name}:{key.line}: {key.plain} is given twice")
            if key.plain is not None:
                seen.add(key.plain)
        return Object(properties, line=line)

    def _lambda(self, parts: list[tree_sitter.Node], line: int) -> Lambda:
        return Lambda(tuple(self.text(each) for each in parts[:-1]), self.expression(parts[-1]), line=line)


def _postfix(of: Expression, make: Callable[[Expression], Expression]) -> Expression:
    """Applies `make` to the last operand. The grammar lets `a ? b : c.d` mean `(a ? b : c).d`, where Bicep binds what
    follows to the last operand."""
    if isinstance(of, Operation):
        return Operation(of.operator, (*of.operands[:-1], _postfix(of.operands[-1], make)), line=of.line)
    return make(of)


def _unescaped(text: str) -> str:
    done, rest = "", text
    while (at := rest.find("\\")) >= 0 and at + 1 < len(rest):
        done += rest[:at] + _ESCAPES.get(rest[at + 1], rest[at + 1])
        rest = rest[at + 2 :]
    return done + rest


_COMMENTS = {"comment", "diagnostic_comment"}
_DECLARATIONS = {
    "parameter_declaration": "param",
    "variable_declaration": "var",
    "resource_declaration": "resource",
    "module_declaration": "module",
    "output_declaration": "output",
}
_Maker = Callable[[_Reader, list[tree_sitter.Node], tree_sitter.Node, int], Expression]
_MAKERS: dict[str, _Maker] = {
    "string": lambda read, _, node, __: read._string(node),
    "number": lambda read, _, node, line: Literal(int(read.text(node)), line=line),
    "boolean": lambda read, _, node, line: Literal(read.text(node) == "true", line=line),
    "null": lambda _, __, ___, line: Literal(None, line=line),
    "identifier": lambda read, _, node, line: Name(read.text(node), line=line),
    "object": lambda read, parts, _, line: read._object(parts, line),
    "array": lambda read, parts, _, line: read._array(parts, line),
    "for_statement": lambda read, parts, _, line: read._loop(parts, line),
    "call_expression": lambda read, parts, _, line: read._call(parts, line),
    "member_expression": lambda read, parts, _, line: read._member(parts, line),
    "subscript_expression": lambda read, parts, _, line: read._subscript(parts, line),
    "ternary_expression": lambda read, parts, _, line: Operation("?", tuple(map(read.expression, parts)), line=line),
    "binary_expression": lambda read, parts, node, line: Operation(
        read.text(node.children[1]), tuple(map(read.expression, parts)), line=line
    ),
    "unary_expression": lambda read, parts, node, line: Operation(
        read.text(node.children[0]), tuple(map(read.expression, parts)), line=line
    ),
    "parenthesized_expression": lambda read, parts, _, line: Grouped(read.expression(parts[0]), line=line),
    "lambda_expression": lambda read, parts, _, line: read._lambda(parts, line),
}
