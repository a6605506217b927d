"""Runs the few words of Kusto that alerts use over sample rows. Any other word is refused, never guessed."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

Row = Mapping[str, Any]
_TOKEN = re.compile(r'\s*("[^"]*"|\d+m\b|\d+(?:\.\d+)?|[A-Za-z_]\w*|==|!=|>=|<=|[-+*/<>=(),.])')
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


_MINUTE = timedelta(minutes=1)


class NotKnown(Exception):
    """Something that this evaluator does not run."""


def run(query: str, tables: Mapping[str, Sequence[Row]], now: datetime | None = None) -> list[dict[str, Any]]:
    """Returns the rows that a query gives at a time. Raises NotKnown, and KeyError for a column that is not there."""
    table, *steps = [part.strip() for part in query.split("|")]
    rows = [dict(row) for row in tables[table]]
    for step in steps:
        word, _, rest = step.partition(" ")
        match word:
            case "where":
                rows = [row for row in rows if _Reader(rest, [row], now).whole()]
            case "project":
                rows = [dict(_Reader(rest, [row], now).columns()) for row in rows]
            case "summarize":
                rows = _summarized(rest, rows, now)
            case _:
                raise NotKnown(word)
    return rows


def _summarized(text: str, rows: list[dict[str, Any]], now: datetime | None) -> list[dict[str, Any]]:
    figures, _, by = text.partition(" by ")
    # Without `by` there is always one row, also of nothing.
    groups: dict[tuple[tuple[str, Any], ...], list[dict[str, Any]]] = {} if by else {(): []}
    for row in rows:
        groups.setdefault(tuple(_Reader(by, [row], now).columns()), []).append(row)
    return [{**dict(key), **dict(_Reader(figures, group, now).columns())} for key, group in groups.items()]


class _Reader:
    """Reads an expression from left to right; of several rows only aggregates have a value."""

    def __init__(self, text: str, rows: Sequence[Row], now: datetime | None) -> None:
        self._rows, self._now = rows, now
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            token = _TOKEN.match(text, at)
            if token is None:
                raise NotKnown(text[at:])
            self._tokens.append(token[1])
            at = token.end()

    def whole(self) -> Any:
        """Returns the value of the whole expression."""
        value = self._compared()
        if self._tokens:
            raise NotKnown(" ".join(self._tokens))
        return value

    def columns(self) -> Iterator[tuple[str, Any]]:
        """Yields the columns of `Name = expression` or `Name`, separated by commas."""
        while self._tokens:
            name = self._tokens[0]
            if self._tokens[1:2] == ["="]:
                del self._tokens[:2]
            yield name, self._compared()
            if self._tokens and self._tokens.pop(0) != ",":
                raise NotKnown(name)

    def _compared(self) -> Any:
        left = self._product()
        if self._tokens[:1] == ["in"]:
            del self._tokens[:1]
            return left in self._arguments()
        if self._tokens[:1] == ["contains"]:
            del self._tokens[:1]
            return str(self._product()).lower() in str(left).lower()
        if self._tokens and self._tokens[0] in _COMPARED:
            compare = _COMPARED[self._tokens.pop(0)]
            right = self._product()
            return left is not None and right is not None and compare(left, right)
        return left

    def _product(self) -> Any:
        value = self._one()
        while self._tokens and self._tokens[0] in ("*", "/"):
            sign, other = self._tokens.pop(0), self._one()
            value = value * other if sign == "*" else value / other
        return value

    def _one(self) -> Any:
        token = self._tokens.pop(0)
        if token.startswith('"'):
            return token[1:-1]
        if token.endswith("m") and token[:-1].isdigit():
            return timedelta(minutes=int(token[:-1]))
        if token[0].isdigit():
            return float(token)
        if self._tokens[:1] == ["("]:
            return self._called(token)
        (row,) = self._rows
        value = row[token]
        while self._tokens[:1] == ["."]:
            value = value.get(self._tokens[1])
            del self._tokens[:2]
        return value

    def _called(self, name: str) -> Any:
        match name:
            case "count" | "countif" | "max" | "sum" | "sumif":
                return self._aggregated(name)
            case "now":
                self._arguments()
                if self._now is None:
                    raise NotKnown("now, without a time")
                return self._now
            case "datetime_diff":
                unit, later, earlier = self._arguments()
                if unit != "minute":
                    raise NotKnown(unit)
                return None if earlier is None else _started(later) - _started(earlier)
            case "coalesce":
                return next((each for each in self._arguments() if each is not None), None)
            case "tostring":
                (value,) = self._arguments()
                return "" if value is None else str(value)
            case "toint":
                (value,) = self._arguments()
                return int(value) if re.fullmatch(r"-?\d+", str(value)) else None
            case "isnotempty":
                (value,) = self._arguments()
                return value not in (None, "")
            case "bin":
                moment, span = self._arguments()
                return _binned(moment, span)
            case _:
                raise NotKnown(name)

    def _aggregated(self, name: str) -> Any:
        """Returns an aggregate of the arguments' values in each row; a sum of nothing is 0, a largest value of nothing
        null."""
        before, rows = list(self._tokens), self._rows
        given = []
        for row in rows:
            self._tokens, self._rows = list(before), [row]
            given.append(self._arguments())
        self._rows = rows
        if not rows:
            del self._tokens[: before.index(")") + 1]
        match name:
            case "count":
                return len(given)
            case "countif":
                return sum(bool(holds) for (holds,) in given)
            case "sum":
                return sum(value for (value,) in given if value is not None)
            case "sumif":
                return sum(value for value, holds in given if holds)
        return max((value for (value,) in given if value is not None), default=None)

    def _arguments(self) -> list[Any]:
        if self._tokens.pop(0) != "(":
            raise NotKnown("(")
        values = []
        while self._tokens[0] != ")":
            values.append(self._compared())
            if self._tokens[0] == ",":
                self._tokens.pop(0)
        self._tokens.pop(0)
        return values


def _binned(moment: datetime, span: timedelta) -> datetime:
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return start + (moment - start) // span * span


def _started(moment: datetime) -> int:
    """Returns the number of minutes that had begun: datetime_diff counts the boundaries between two times."""
    return int(moment.timestamp() // _MINUTE.total_seconds())
