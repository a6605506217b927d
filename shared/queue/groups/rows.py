"""Rows of the Groups table as read and written."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, cast

from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.queue.events.rules import Exchange, GroupEvent
from shared.queue.tasks.codec import PackedDefinition, packed_in
from shared.queue.tasks.rules import State
from shared.store import keys
from shared.store.columns import Columns
from shared.store.interface import MAX_OPERATIONS, Row, Value

FINAL = "final"
"""Prefix of the property of a member row with the status in which the task was resolved in a generation. Each has its
own, so that a late handler of an earlier one overwrites nothing newer."""
STATE = "state"
"""Prefix of the property with the state in which the task was resolved in a generation."""
OPENED = "opened"
"""Prefix of the property that says that the task may have been opened again, in a generation."""
_SHOWN = 3
"""Generations whose properties a range of member rows is read with. Later ones show by the marks of these."""


def column(prefix: str, generation: int) -> str:
    """Returns the property of a member row with that prefix."""
    return f"{prefix}{generation:04d}"


_MARKS = tuple(column(OPENED, generation) for generation in range(1, _SHOWN + 1))
STATE_COLUMNS = (*(column(STATE, generation) for generation in range(_SHOWN)), *_MARKS)
"""Properties that tell whether the task of a member row is resolved."""
FINAL_COLUMNS = (*(column(FINAL, generation) for generation in range(_SHOWN)), *_MARKS)
"""Properties that show the status of its last resolution."""
EDGES_WITH_MEMBER = MAX_OPERATIONS - 6
"""Edges that fit into the transaction that adds a member, beside its rows and those of a new group."""
MOST_GUARDED = (MAX_OPERATIONS - 4) // 2
"""Edges that fit into that transaction if each has a guard, beside the rows of a group that is there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A group's header as read."""

    task_group_id: str
    scheduler_id: str
    expires: datetime
    sealed: datetime | None
    number: int
    """The number of calls that were made on the whole group. A guard row has it in its key."""
    listed: str
    """The key of its row in the list of groups."""
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """The work that has yet to be done in a group."""

    resolution: str
    """Task and generation whose resolution has yet to be checked for being the group's last; "" when none."""
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Active:
    """An active row as read."""

    task_id: str
    generation: int
    etag: str
    written: datetime
    """The time at which it was last written or rewritten: also by a call whose task waits for this one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edges:
    """What a new task waits for in its own group, as its edges are written with its member row."""

    required: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    """The required tasks whose active rows must exist: then none is settled, and each will find its edge."""

    @classmethod
    def of(cls, dependent: str, required: Sequence[str], satisfied: Collection[str]) -> Edges:
        """Edges with guards for those that are not satisfied yet, if all fit into one transaction."""
        guards = [task_id for task_id in required if task_id != dependent and task_id not in satisfied]
        fit = len(required) + len(guards) <= 2 * MOST_GUARDED and len(guards) <= MOST_GUARDED
        fit = fit and len(required) <= EDGES_WITH_MEMBER
        return cls(required=tuple(required), guards=tuple(guards) if fit else ())

    @property
    def first(self) -> tuple[str, ...]:
        """The edges that are written in the transaction of the member row."""
        return self.required[:EDGES_WITH_MEMBER]

    @property
    def rest(self) -> tuple[str, ...]:
        """The edges that are written after it."""
        return self.required[EDGES_WITH_MEMBER:]


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A member row as read."""

    task_id: str
    definition: PackedDefinition | None
    """The definition; None when it is large, or may be that of a call that did not create the task."""
    final: dict[str, Any] | None
    """The status of the task's last resolution; None when it was never resolved, or has been opened again since."""
    etag: str


_HEADER = Columns(Group, without={"task_group_id", "sealed", "etag"})
HEADER_COLUMNS = ("sealed", *_HEADER.names)


def decode_group(row: Row) -> Group:
    """Reads a header from its row."""
    sealed = str(row.values["sealed"])
    return _HEADER.decode(
        row.values, task_group_id=row.partition, sealed=parse_date(sealed) if sealed else None, etag=row.etag
    )


def encode_group(group: Group) -> dict[str, Value]:
    """Returns the properties of a header."""
    return {**_HEADER.encode(group), "sealed": "" if group.sealed is None else format_date(group.sealed)}


def group_event(exchange: Exchange, group: Group, occasion: str) -> GroupEvent:
    """Returns an event of the group, with the header's present values."""
    return GroupEvent(
        exchange=exchange,
        task_group_id=group.task_group_id,
        scheduler_id=group.scheduler_id,
        occasion=occasion,
        expires=group.expires,
        sealed=group.sealed,
    )


def decode_active(row: Row) -> Active:
    """Reads an active row."""
    _, task_id, generation = row.key.split("~")
    return Active(task_id=task_id, generation=int(generation), etag=row.etag, written=row.timestamp)


def decode_due(row: Row) -> Due:
    """Reads the row of what is due."""
    return Due(resolution=str(row.values["resolution"]), etag=row.etag)


def decode_member(row: Row) -> Member:
    """Reads a member row."""
    packed = row.values.get("definition")
    return Member(
        task_id=keys.task_of(row.key),
        definition=packed_in(row, cast("bytes", packed)) if packed else None,
        final=final_status(row),
        etag=row.etag,
    )


def final_status(row: Row) -> dict[str, Any] | None:
    """Returns the status of the last resolution of a member row's task; None when it was never resolved, or has been
    opened again since. While there is one the task has no active row that counts."""
    opened = max(generations(row, OPENED), default=0)
    final = row.values.get(column(FINAL, opened))
    return json.loads(str(final)) if final else None


def was_created(row: Row) -> bool:
    """Returns whether a member row shows that its task was committed: it was resolved, or opened again."""
    return any(generations(row, prefix) for prefix in (STATE, FINAL, OPENED))


class Unsettled(Enum):
    """The meanings that a member row without a state can have for its task."""

    OPEN = "open"
    """No resolution of the task was settled before this read, so who settles one will read the edges later."""
    UNKNOWN = "unknown"
    """There is no such row, or the task may have been opened again: its status row decides."""


def settled_state(row: Row | None) -> State | Unsettled:
    """Returns the state in which a member's task is resolved, as its row shows it. A rerun marks its generation in the
    row before it commits, and both stay. So a state without a later mark is the task's when the row was read."""
    if row is None:
        return Unsettled.UNKNOWN
    states, opened = generations(row, STATE), max(generations(row, OPENED), default=0)
    if not states:
        return Unsettled.UNKNOWN if opened else Unsettled.OPEN
    settled = max(states)
    return Unsettled.UNKNOWN if opened > settled else State(str(row.values[column(STATE, settled)]))


def generations(row: Row, prefix: str) -> list[int]:
    """Returns the generations of which a member row has the properties of that prefix."""
    return [int(name.removeprefix(prefix)) for name in row.values if name.startswith(prefix)]
