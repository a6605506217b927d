"""Evaluates expressions of GitHub's workflows, as far as the pipelines use them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*('[^']*'|&&|\|\||==|!=|[!(),]|[\w.-]+)")
_WHOLE = re.compile(r"\$\{\{(.*?)\}\}")


def filled_in(text: str, given: Mapping[str, object]) -> str:
    """Returns a text with its expressions replaced by their values."""
    return _WHOLE.sub(lambda match: _written(value(match[1], given)), text)


def _written(found: object) -> str:
    """Writes a value as GitHub does: booleans in lower case, null as nothing."""
    return str(found).lower() if isinstance(found, bool) else str(found or "")


def holds(condition: str, given: Mapping[str, object]) -> bool:
    """Whether an `if` holds, with or without the braces."""
    return bool(value(_WHOLE.sub(r"\1", condition), given))


def value(expression: str, given: Mapping[str, object]) -> object:
    """Returns the value of an expression; `given` has contexts by their dotted names, what it lacks is null."""
    return _Parser(_TOKEN.findall(expression), given).either()


class _Parser:
    def __init__(self, tokens: list[str], given: Mapping[str, object]) -> None:
        self._tokens = tokens
        self._given = given

    def _take(self, *wanted: str) -> str:
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in wanted else ""

    def either(self) -> object:
        left = self._both()
        while self._take("||"):
            right = self._both()
            left = left or right
        return left

    def _both(self) -> object:
        left = self._compared()
        while self._take("&&"):
            right = self._compared()
            left = left and right
        return left

    def _compared(self) -> object:
        left = self._one()
        if operator := self._take("==", "!="):
            return (left == self._one()) is (operator == "==")
        return left

    def _one(self) -> object:
        if self._take("!"):
            return not self._one()
        if self._take("("):
            inner = self.either()
            assert self._take(")"), "the bracket is closed"
            return inner
        word = self._tokens.pop(0)
        if word.startswith("'"):
            return word[1:-1]
        if self._take("("):
            return self._called(word)
        return self._given.get(word)

    def _called(self, name: str) -> object:
        arguments: list[object] = []
        while not self._take(")"):
            arguments.append(self.either())
            self._take(",")
        if name == "format":
            return str(arguments[0]).format(*arguments[1:])
        assert name == "cancelled", f"no function {name} is used"
        return self._given.get("cancelled", False)
