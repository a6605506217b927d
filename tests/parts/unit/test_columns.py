"""Rows of dataclasses: which columns they have, and what is read of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

from shared.base.frozen import dataclass
from shared.store.columns import Columns
from shared.store.interface import StorageUnavailable

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


class Kind(StrEnum):
    LARGE = "large"


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    thing_id: str
    kind: Kind
    until: datetime
    details: Mapping[str, Any]
    length: int | None = None
    last: datetime | None = None
    runs: tuple[tuple[str, int], ...] = ()
    is_known: bool = False
    etag: str = ""


COLUMNS = Columns(Thing, without={"etag"}, renamed={"until": "expires"})
ALL = Thing(
    thing_id="a", kind=Kind.LARGE, until=NOON, details={"b": [1]}, length=3, last=NOON, runs=(("c", 0),), is_known=True
)


def test_columns_are_named_and_written_as_in_json() -> None:
    noon = "2030-01-31T12:00:00.000Z"
    assert COLUMNS.encode(ALL) == {
        "thingId": "a",
        "kind": "large",
        "expires": noon,
        "details": '{"b":[1]}',
        "length": 3,
        "last": noon,
        "runs": '[["c",0]]',
        "isKnown": True,
    }
    assert set(COLUMNS.encode(ALL)) == set(COLUMNS.names)


def test_what_was_written_is_read() -> None:
    read = COLUMNS.decode(COLUMNS.encode(ALL), etag="e")
    assert (read.etag, read) == ("e", Thing(**{name: getattr(ALL, name) for name in Thing.__slots__} | {"etag": "e"}))


def test_what_is_none_has_no_column() -> None:
    written = COLUMNS.encode(Thing(thing_id="a", kind=Kind.LARGE, until=NOON, details={}))
    assert "length" not in written
    assert "last" not in written
    read = COLUMNS.decode(written | {"unknown": "x"})
    assert (read.length, read.last, read.runs, read.is_known) == (None, None, (), False)


@pytest.mark.parametrize("column", ["expires", "runs", "isKnown"])
def test_a_row_that_lacks_another_column_is_spoiled(column: str) -> None:
    """A row that lacks a column is spoiled: a default would be taken for what was stored."""
    written = COLUMNS.encode(ALL)
    del written[column]
    with pytest.raises(StorageUnavailable, match=column):
        COLUMNS.decode(written)
