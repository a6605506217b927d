"""The orders in which tasks join their group, and go with it (design 3).

Of a task the partition goes first, then the member row, which leads to it, and the group goes last.

A variant takes one rule away; each loses something (`test_expiry`). A group has a header (end, ETag), members (written,
ETag) and partitions of tasks (end, version); rows of the Expiry table are ("row", what, when), where what is "group"
or a task that has a row of its own, and their value is the member to go on from.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import StrEnum, auto
from typing import Any

from tests.orders.explorer import BLOCKED, LATE, LATEST, LOST, ORPHAN, Database, Request, bump, is_too_late

Requests = Generator[Request, Any, None]
MARGIN = 1
"""How much later than its first task a group ends."""
GRACE = LATEST + LATE + 1
"""So long after its end something is due: no call under way can have begun before the end any more."""
END = 6
"""When the last look is."""
HEADER, GROUP = ("header",), "group"


class Without(StrEnum):
    """A rule that is taken away."""

    NOTHING = auto()
    ROW_FIRST = auto()
    """What deletes a group is written before its header."""
    MEMBER_LAST = auto()
    """The member row goes after the partition."""
    GROUP_LAST = auto()
    """The header goes once no member is left."""
    AGE = auto()
    """A member row goes only once no call under way can rely on it."""
    REWRITTEN = auto()
    """Who finds a member without a task writes its row again, before the commit."""
    MEMBER_ETAG = auto()
    """A member row goes as it was read."""
    HEADER_ETAG = auto()
    """A header goes as it was read."""
    OWN_ROW_FIRST = auto()
    """What cannot be deleted has a row of its own before it leaves its group."""
    MOVED_ON = auto()
    """The group's row is written anew for when it is to be looked at again, while the group is there."""
    ROW_LAST = auto()
    """A row of the Expiry table goes after what it stands for."""


class Create:
    """createTask, which begins at the time `by` at the latest. `is_older`: by code that gives each task its own row."""

    def __init__(self, task: str, end: int, without: Without, *, by: int = 0, is_older: bool = False) -> None:
        self.task, self.end, self.without, self.by, self.is_older = task, end, without, by, is_older
        self.began = 0
        self.header: Any = None

    def __call__(self) -> Requests:
        """Its requests. The explorer begins them anew again and again."""
        return Create(self.task, self.end, self.without, by=self.by, is_older=self.is_older)._requests()

    def put_row(self, what: str, end: int) -> Request:
        def effect(db: Database) -> Any:
            if is_too_late(db, self.began):
                return "late"
            return db.setdefault(("row", what, end + GRACE), "")

        return f"W row of {what}", effect

    def join(self, db: Database) -> str:
        """One transaction: header and member."""
        if is_too_late(db, self.began):
            return "late"
        there = db.get(HEADER)
        is_raised = self.header is not None and self.header[0] < self.end
        if (there is None) != (self.header is None) or (is_raised and there != self.header):
            return "again"
        if ("member", self.task) in db:
            return "exists"
        if there is None or is_raised:
            db[HEADER] = (self.end + MARGIN, bump(db, HEADER))
        else:
            db[HEADER] = (there[0], bump(db, HEADER))
        db["member", self.task] = (db["now"], bump(db, ("member", self.task)))
        return "ok"

    def rewrite(self, db: Database) -> str:
        if is_too_late(db, self.began):
            return "late"
        if HEADER not in db or ("member", self.task) not in db:
            return "again"
        db["member", self.task] = (db["now"], bump(db, ("member", self.task)))
        return "ok"

    def commit(self, db: Database) -> str:
        if is_too_late(db, self.began) or ("task", self.task) in db:
            return "refused"
        db["task", self.task] = (self.end, bump(db, ("task", self.task)))
        return "ok"

    def _requests(self) -> Requests:
        first = lambda db: (db.get(HEADER), db["now"]) if db["now"] <= self.by else BLOCKED  # noqa: E731
        self.header, self.began = yield "R header", first
        for _ in range(2):
            joined = yield from self._join()
            if joined == "exists":
                if (yield "R task", lambda db: db.get(("task", self.task))) is not None:
                    return
                joined = "ok" if self.without is Without.REWRITTEN else (yield "W member again", self.rewrite)
            if joined != "again":
                break
            self.header = yield "R header", lambda db: db.get(HEADER)
        if joined == "ok":
            yield "★", self.commit

    def _join(self) -> Generator[Request, Any, Any]:
        if self.is_older and (yield self.put_row(self.task, self.end)) in (LOST, "late"):
            return "late"
        row = self.put_row(GROUP, self.end + MARGIN)
        is_new = self.header is None
        if is_new and self.without is not Without.ROW_FIRST and (yield row) in (LOST, "late"):
            return "late"
        joined = yield "W Groups", self.join
        if (is_new and self.without is Without.ROW_FIRST) or (not is_new and self.header[0] < self.end):
            yield row
        return joined


def on_expiry(without: Without, *, is_older: bool = False) -> Requests:
    """The expiry job: one row that is due. The older code's knows no sweeps, and deletes the member first."""

    def first(db: Database) -> Any:
        due = [key for key in db if key[0] == "row" and key[2] <= db["now"] and not (is_older and key[1] == GROUP)]
        key = min(due, key=lambda key: (key[2], key[1]), default=None)
        return BLOCKED if key is None else (key[1], key[2], db[key], db["now"])

    what, when, resume, now = yield "R rows", first
    if without is Without.ROW_LAST:
        yield "W row away", lambda db: db.pop(("row", what, when), None) and None
    if what == GROUP:
        later, resume = yield from _sweep(resume, now, without)
    else:
        later, resume = (yield from _delete(what, now, without, is_older=is_older)), ""
    if later is not None and (without is not Without.MOVED_ON or resume or what != GROUP):
        later = min(later, END)
        yield "W row, later", lambda db: db.__setitem__(("row", what, later), resume)
    if later != when or without is Without.MOVED_ON:
        yield "W row away", lambda db: db.pop(("row", what, when), None) and None


def _sweep(start: str, now: int, without: Without) -> Generator[Request, Any, tuple[int | None, str]]:
    """One page, which is of one member. Returns when to go on or to look again, and from which member on."""

    def page(db: Database) -> tuple[str, ...]:
        return tuple(sorted(key[1] for key in db if key[0] == "member" and key[1] >= start))[:2]

    members = yield "R members", page
    later = now + 1 if start else None
    if members:
        later = (yield from _delete(members[0], now, without, fails=True)) or later
    if len(members) > 1:
        return now, members[1]
    header, has_members = yield "R group", lambda db: (db.get(HEADER), any(key[0] == "member" for key in db))
    if header is not None and header[0] + GRACE > now:
        end = header[0] + GRACE
        return (min(later, end) if later and has_members else end), ""
    if has_members and without is not Without.GROUP_LAST:
        return later or now + 1, ""

    def delete(db: Database) -> bool:
        if db.get(HEADER) != header and without is not Without.HEADER_ETAG:
            return False
        db.pop(HEADER, None)
        return True

    if not (yield "W header", delete):
        return now + 1, ""

    def rest(db: Database) -> bool:
        for key in [key for key in db if key[0] == "member" and without is Without.GROUP_LAST]:
            del db[key]
        return any(key[0] == "member" for key in db)

    return (now + 1 if (yield "W rest", rest) else None), ""


def _delete(
    task: str, now: int, without: Without, *, fails: bool = False, is_older: bool = False
) -> Generator[Request, Any, int | None]:
    """A task that is over, and its member row. Returns when to look again."""
    status = yield f"R {task}", lambda db: db.get(("task", task))
    if status is not None and status[0] + GRACE > now:
        return int(status[0]) + GRACE
    member = yield "R member", lambda db: db.get(("member", task))
    is_stuck = fails and (yield "D blobs", lambda db: db.pop(("fails", task), False))
    own: Request = ("W row of its own", lambda db: db.setdefault(("row", task, min(now + 1, END)), ""))
    if is_stuck and without is not Without.OWN_ROW_FIRST:
        yield own

    def partition(db: Database) -> None:
        if db.get(("task", task)) == status:
            db.pop(("task", task), None)

    def leave(db: Database) -> None:
        if db.get(("member", task)) == member or without is Without.MEMBER_ETAG:
            db.pop(("member", task), None)

    is_young = member is not None and now - member[0] < ORPHAN and without is not Without.AGE
    steps = [("W partition", partition)] if not is_stuck else []
    steps += [("W member away", leave)] if not is_young else []
    is_first = is_older or without is Without.MEMBER_LAST
    yield from steps[::-1] if is_first else steps
    if is_stuck and without is Without.OWN_ROW_FIRST:
        yield own
    return now + 1 if is_young else None


def start(*tasks: str, fails: str = "") -> Database:
    """A group with tasks that are over, and a sweep for them; the group will be, too."""
    if not tasks:
        return {}
    db: Database = {HEADER: (MARGIN - GRACE, 0), ("row", GROUP, MARGIN): "", ("row", GROUP, 0): ""}
    for task in tasks:
        db["member", task], db["task", task] = (-GRACE - ORPHAN, 0), (-GRACE, 0)
    return {**db, ("fails", fails): True} if fails else db


def always(db: Database) -> str:
    """What is wrong at this moment."""
    for key in [key for key in db if key[0] == "task"]:
        if ("member", key[1]) not in db and not any(row[:2] == ("row", key[1]) for row in db):
            return "nothing leads to a task"
        if HEADER not in db and db[key][0] + GRACE > db["now"]:
            return "a task has lost its group"
    has_row = any(key[:2] == ("row", GROUP) for key in db)
    return "nothing leads to a group" if HEADER in db and not has_row else ""


def at_the_end(db: Database) -> str:
    """What is wrong when all that is due was handled."""
    for key in db:
        if key[0] in ("task", "member", "header"):
            return f"{key[0]} stays"
    return ""
