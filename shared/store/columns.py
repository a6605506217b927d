"""Dataclasses as properties of rows: a column for each field, named as JSON names it (`takenUntil` of `taken_until`).

Times are texts as the contract writes them, enumerations their values, lists and objects JSON. None has no column. A
column that a row lacks, since older code has written it, counts as the default of its field.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from pydantic.alias_generators import to_camel

from shared.base import jsontext
from shared.base.dates import format_date, parse_date
from shared.store.interface import Value

T = TypeVar("T")


class Columns(Generic[T]):
    """The columns of a dataclass with two fields or more."""

    def __init__(
        self, cls: type[T], *, without: Collection[str] = (), renamed: Mapping[str, str] | None = None
    ) -> None:
        """`without` are the fields that a row keeps in another way, in its key for example."""
        self._cls = cls
        hints = get_type_hints(cls)
        fields = [each for each in dataclasses.fields(cls) if each.name not in without]  # type: ignore[arg-type]
        self.names = tuple((renamed or {}).get(each.name) or to_camel(each.name) for each in fields)
        self._values_of = attrgetter(*(each.name for each in fields))
        self._writing: list[tuple[str, Callable[[Any], Value] | None]] = []
        self._reading: list[tuple[str, str, bool, Callable[[Any], Any] | None]] = []
        for each, column in zip(fields, self.names, strict=True):
            has_default = each.default is not MISSING or each.default_factory is not MISSING
            write, read = _converters(hints[each.name])
            self._writing.append((column, write))
            self._reading.append((each.name, column, has_default, read))

    def encode(self, value: T) -> dict[str, Value]:
        """The properties of a row."""
        return {
            column: each if write is None else write(each)
            for (column, write), each in zip(self._writing, self._values_of(value), strict=True)
            if each is not None
        }

    def decode(self, values: Mapping[str, Value], **others: Any) -> T:
        """What a row's properties say; `others` are the fields that are not in them. Raises KeyError."""
        fields = {
            field: values[column] if read is None else read(values[column])
            for field, column, has_default, read in self._reading
            if not has_default or column in values
        }
        return self._cls(**fields, **others)


def _converters(hint: Any) -> tuple[Callable[[Any], Value] | None, Callable[[Any], Any] | None]:
    """How values of a type are written and read; None where they stay as they are."""
    (kind,) = [each for each in get_args(hint) if each is not NoneType] if NoneType in get_args(hint) else [hint]
    container = get_origin(kind)
    if kind is datetime:
        return format_date, parse_date
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return attrgetter("value"), kind
    if container is tuple:
        return _json, _tuple
    return (_json, json.loads) if container is Mapping else (None, None)


def _json(value: Any) -> str:
    return jsontext.write(value).decode()


def _tuple(text: str) -> tuple[Any, ...]:
    return tuple(tuple(each) if isinstance(each, list) else each for each in json.loads(text))
