"""A small evaluator of the SQL filters that the product writes, with three-valued logic; None is UNKNOWN."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[=()]))")


def evaluate(expression: str, properties: Mapping[str, str]) -> bool | None:
    """Returns whether the expression is true of a message with these properties, None if unknown. Raises ValueError for
    other grammar."""
    parser = _Parser(expression, {name.lower(): value for name, value in properties.items()})
    value = parser.disjunction()
    parser.expect("")
    return value


class _Parser:
    def __init__(self, expression: str, properties: Mapping[str, str]) -> None:
        self._tokens = self._split(expression)
        self._properties = properties

    @staticmethod
    def _split(expression: str) -> list[str]:
        tokens, position = [], 0
        while expression[position:].strip():
            match = _TOKEN.match(expression, position)
            if match is None:
                raise ValueError(f"cannot read {expression[position:]!r}")
            tokens.append(match[0].strip())
            position = match.end()
        return [*tokens, ""]

    def expect(self, token: str) -> None:
        if self._tokens.pop(0) != token:
            raise ValueError(f"{token!r} was expected")

    def _accept(self, token: str) -> bool:
        found = self._tokens[0] == token
        if found:
            self._tokens.pop(0)
        return found

    def disjunction(self) -> bool | None:
        values = [self._conjunction()]
        while self._accept("OR"):
            values.append(self._conjunction())
        return True if True in values else None if None in values else False

    def _conjunction(self) -> bool | None:
        values = [self._condition()]
        while self._accept("AND"):
            values.append(self._condition())
        return False if False in values else None if None in values else True

    def _condition(self) -> bool | None:
        if self._accept("("):
            value = self.disjunction()
            self.expect(")")
            return value
        if self._accept("EXISTS"):
            self.expect("(")
            name = self._tokens.pop(0)
            self.expect(")")
            return name.lower() in self._properties
        left = self._properties.get(self._tokens.pop(0).lower())
        if self._accept("="):
            right = self._string()
            return None if left is None else left == right
        self.expect("LIKE")
        pattern = self._string()
        escape = self._string() if self._accept("ESCAPE") else None
        return None if left is None else _like(left, pattern, escape)

    def _string(self) -> str:
        token = self._tokens.pop(0)
        if not token.startswith("'"):
            raise ValueError(f"{token!r} is not a string")
        return token[1:-1].replace("''", "'")


def _like(text: str, pattern: str, escape: str | None) -> bool:
    regex, characters = "", iter(pattern)
    for character in characters:
        if character == escape:
            regex += re.escape(next(characters))
        else:
            regex += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return re.fullmatch(regex, text, re.DOTALL) is not None
