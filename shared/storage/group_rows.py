"""Rows of the Groups table as read and written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from shared.domain.dates import parse_date
from shared.storage.codec import PackedDefinition, packed_in
from shared.storage.interface import Row

FINAL = "final"
OPENED = "opened"
"""Properties of a member row, each with a generation behind it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A group's header as read."""

    task_group_id: str
    scheduler_id: str
    expires: datetime
    sealed: datetime | None
    due: str
    """Task and generation whose resolution has yet to be checked for being the group's last; "" when none."""
    listed: str
    """The key of its row in the list of groups; "" for a group that was founded before there was one."""
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
    """A member row as read."""

    task_id: str
    definition: PackedDefinition | None
    """None when it is large, or when it may be that of a call that did not create the task."""
    final: dict[str, Any] | None
    """The status of the task's last resolution; None when it was never resolved, or has been opened again since."""
    etag: str


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
        listed=str(row.values.get("listed", "")),
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
    finals = _generations(row, FINAL)
    opened = max(_generations(row, OPENED), default=0)
    final = row.values[f"{FINAL}{opened:04d}"] if opened in finals else None
    return Member(
        task_id=task_id,
        definition=packed_in(row, cast("bytes", packed)) if packed else None,
        final=json.loads(str(final)) if final else None,
        etag=row.etag,
    )


def _generations(row: Row, prefix: str) -> list[int]:
    return [int(name.removeprefix(prefix)) for name in row.values if name.startswith(prefix)]
