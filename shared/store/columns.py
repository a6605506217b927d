"""Dataclasses as properties of rows: a column for each field, named as JSON names it (`takenUntil` of `taken_until`).

Times are texts as the contract writes them, enumerations their values, lists and objects JSON. None has no column; a
row that lacks another one is spoiled: a default would be taken for what was stored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from pydantic.alias_generators import to_camel

from shared.base import jsontext
from shared.base.dates import format_date, parse_date
from shared.store.interface import StorageUnavailable, Value

T = TypeVar("T")


class Columns(Generic[T]):
    """The columns of a dataclass. Hot calls write and read them, so both are written out, as `dataclasses` does it."""

    def __init__(
        self, cls: type[T], *, without: Collection[str] = (), renamed: Mapping[str, str] | None = None
    ) -> None:
        """Takes the dataclass, and in `without` the fields that a row keeps in another way, in its key for example."""
        hints, names = get_type_hints(cls), {}
        used: dict[str, Any] = {"cls": cls}
        written, optional, needed = [], [], []
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # mypy cannot ask for a dataclass
            if field.name in without:
                continue
            name = field.name
            column = names[name] = (renamed or {}).get(name) or to_camel(name)
            write, read = _converters(hints[name])
            if write is not None and read is not None:
                used[f"write_{name}"], used[f"read_{name}"] = write, read
            value = f"each.{name}" if write is None else f"write_{name}(each.{name})"
            if NoneType in get_args(hints[name]):
                optional.append(f"    if each.{name} is not None: row[{column!r}] = {value}")
            else:
                written.append(f"{column!r}: {value}")
            value = f"row[{column!r}]" if read is None else f"read_{name}(row[{column!r}])"
            if NoneType in get_args(hints[name]):
                value += f" if {column!r} in row else None"
            needed.append(f"{name}={value}")
        text = ["def encode(each):", f"    row = {{{', '.join(written)}}}", *optional, "    return row"]
        text += ["def decode(row, others):", f"    return cls({', '.join(needed)}, **others)"]
        exec("\n".join(text), used)  # noqa: S102 - names of fields alone
        self.names = tuple(names.values())
        self._encode: Callable[[T], dict[str, Value]] = used["encode"]
        self._decode: Callable[[Mapping[str, Value], dict[str, Any]], T] = used["decode"]

    def encode(self, value: T) -> dict[str, Value]:
        """Returns the properties of a row."""
        return self._encode(value)

    def decode(self, values: Mapping[str, Value], **others: Any) -> T:
        """Reads a value from a row's properties; `others` are the fields that are not in them. Raises
        StorageUnavailable for a row that is spoiled."""
        try:
            return self._decode(values, others)
        except KeyError as missing:
            raise StorageUnavailable(f"a row has no {missing}") from None


def _converters(hint: Any) -> tuple[Callable[[Any], Value] | None, Callable[[Any], Any] | None]:
    """Returns functions that write and read values of a type; None where a value stays as it is."""
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
