"""Rows of the Groups table as read and written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from shared.domain.dates import parse_date
from shared.domain.definition import Definition
from shared.storage.codec import PackedDefinition
from shared.storage.interface import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A group's header as read."""

    task_group_id: str
    scheduler_id: str
    expires: datetime
    sealed: datetime | None
    due: str
    """Task and generation whose resolution has yet to be checked for being the group's last; "" when none."""
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Active:
    """An active row as read."""

    task_id: str
    generation: int
    etag: str
    written: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A member row as read. `definition` is there when it is small; `final` is the status of its last resolution."""

    task_id: str
    definition: Definition | None
    final: dict[str, Any] | None
    final_generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The ETags of the rows that a task has added to its group, to take them back with."""

    member: str
    active: str
    founded: tuple[str, str] | None = None
    """The ETags of the header and of the scheduler's guard, if the group was made for this task."""


def decode_group(row: Row) -> Group:
    """A header row."""
    sealed = str(row.values["sealed"])
    return Group(
        task_group_id=row.partition,
        scheduler_id=str(row.values["schedulerId"]),
        expires=parse_date(str(row.values["expires"])),
        sealed=parse_date(sealed) if sealed else None,
        due=str(row.values["due"]),
        etag=row.etag,
    )


def decode_active(row: Row) -> Active:
    """An active row."""
    _, task_id, generation = row.key.split("~")
    return Active(task_id=task_id, generation=int(generation), etag=row.etag, written=row.timestamp)


def decode_member(row: Row) -> Member:
    """A member row."""
    task_id = row.key.split("~", 1)[1]
    packed = row.values.get("definition")
    definition = None
    if packed is not None:
        definition = PackedDefinition(content=cast("bytes", packed), spilled_to=None).unpack(task_id)
    finals = sorted(name for name in row.values if name.startswith("final"))
    return Member(
        task_id=task_id,
        definition=definition,
        final=json.loads(str(row.values[finals[-1]])) if finals else None,
        final_generation=int(finals[-1].removeprefix("final")) if finals else -1,
    )
