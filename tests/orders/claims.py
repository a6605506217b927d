"""The orders of a claim (design 4): its row stands ahead of its commit, and its message looks after the row.

A variant takes one rule away; each loses something (`test_claims`). There is one task, whose status is (version, run,
state, claim, until), and ("started", run) the claim of each run; its rows are ("pending", run) and
("claimed", moment, run), the latter of a claim. Claims begin at moments of their own, unless their names say otherwise
("moment/claim").
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import StrEnum, auto
from typing import Any

from tests.orders.explorer import BLOCKED, LOST, ORPHAN, Database, Request, bump, done, is_too_late, put, take

Requests = Generator[Request, Any, None]
LASTS = 2
"""Units of a claim, unless it is renewed: shorter than an orphan is old."""


class Without(StrEnum):
    """A rule that is taken away."""

    NOTHING = auto()
    MESSAGE_FIRST = auto()
    """The claim message is put before the transaction."""
    ROWS_FIRST = auto()
    """The transaction comes before the commit."""
    LOOK_AT_PENDING = auto()
    """The message's handler looks after the row also where the run is pending."""
    AGE = auto()
    """It does so only once the claim's requests can take effect no more."""
    KEPT_MESSAGE = auto()
    """The message stays when the claim may have written its rows and is not committed."""
    PENDING_BACK = auto()
    """The row of the pending run comes back in the transaction that removes that of the claim."""
    NAMED_ROW = auto()
    """The message names the row of its claim."""
    WORKER = auto()
    """The worker's row is a condition of the transaction."""
    FENCE = auto()
    """workerRemoved commits the task of a claim under way unchanged."""
    MESSAGE_LAST = auto()
    """Who hands a claim back removes its message after the rows are exchanged."""
    FENCED_DOUBT = auto()
    """A claim whose commit got no answer commits the task unchanged before it puts the rows back."""
    PENDING_REMOVED = auto()
    """The claim removes the row of the pending run."""
    CREATED = auto()
    """The row of a claim replaces none that another claim of the same moment has written."""
    OWN_ROW = auto()
    """A claim that comes to nothing takes away no row of another claim of the same moment."""


def moment(me: str) -> str:
    """When a claim begins, which names its row."""
    return me.partition("/")[0]


def exchange(me: str, run: int, pending: int | None, without: Without) -> Request:
    """The claim's row gives way to that of the run that is pending, if one is, in one transaction or not at all.

    A moment without a claim means the claim that has the row.
    """
    key = "claimed", moment(me), run

    def effect(db: Database) -> None:
        is_there = key in db and (me == moment(me) or db[key][1] == me or without is Without.OWN_ROW)
        if is_there:
            del db[key]
        if is_there and pending is not None and without is not Without.PENDING_BACK:
            db["pending", pending] = bump(db, ("pending", pending))

    return "exchange rows", effect


class Claim:
    """claimWork of the pending run, which begins at the time `by` at the latest; of the version that its process
    `remembers`, when others may have committed since."""

    def __init__(
        self, me: str, worker: str, without: Without, *, hangs_up: bool = False, by: int = 0, remembers: bool = False
    ) -> None:
        self.me, self.worker, self.without, self.hangs_up, self.by = me, worker, without, hangs_up, by
        self.remembers = remembers
        self.status: Any = None
        self.began = 0

    @property
    def run(self) -> int:
        return int(self.status[1])

    @property
    def message(self) -> Any:
        return ("" if self.without is Without.NAMED_ROW else moment(self.me), self.run, self.began)

    def read(self, db: Database) -> Any:
        return (db["status"], db["now"]) if db["status"][2] == "pending" and db["now"] <= self.by else BLOCKED

    def put_message(self, db: Database) -> Any:
        return "late" if is_too_late(db, self.began) else put(db, self.message, self.began + LASTS)

    def rows(self, db: Database) -> str:
        if is_too_late(db, self.began):
            return "late"
        if db.get(("worker", self.worker), 0) and self.without is not Without.WORKER:
            return "worker"
        key, row = ("claimed", moment(self.me), self.run), (self.worker, self.me)
        if db.get(key, row) != row and self.without is not Without.CREATED:
            return "taken"
        if self.without is not Without.PENDING_REMOVED:
            db.pop(("pending", self.run), None)
        db[key] = row
        return "ok"

    def commit(self, db: Database) -> Any:
        if is_too_late(db, self.began):
            return "late"
        if db["status"] != self.status:
            return db["status"]
        db["status"] = (bump(db, "status"), self.run, "running", self.me, self.began + LASTS)
        db["started", self.run] = self.me
        return "ok"

    def write_ahead(self) -> Generator[Request, Any, bool]:
        """Message and rows; whether the commit may follow."""
        if self.without is not Without.MESSAGE_FIRST and (yield "P claim", self.put_message) is not None:
            return False
        if self.without is Without.ROWS_FIRST:
            return True
        written = yield "W rows", self.rows
        if self.without is Without.MESSAGE_FIRST:
            yield "P claim", self.put_message
        if written is LOST:
            yield exchange(self.me, self.run, self.run, self.without)
        if written != "ok" and self.without is Without.KEPT_MESSAGE:
            yield "D claim", lambda db: remove_message(db, self.message)
        return bool(written == "ok")

    def __call__(self) -> Requests:
        """Its requests. The explorer begins them anew again and again."""
        same = Claim(self.me, self.worker, self.without, hangs_up=self.hangs_up, by=self.by, remembers=self.remembers)
        return same._requests()

    def _requests(self) -> Requests:
        self.status, self.began = yield "R task", self.read
        if self.remembers:
            self.began = yield "R message", lambda db: db["now"] if db["now"] <= self.by else BLOCKED
        if not (yield from self.write_ahead()):
            return
        answer = yield "★", self.commit
        if answer is LOST:
            yield from take_back(self.me, self.run, self.status[0], self.without)
            return
        if answer == "late":
            return
        if answer != "ok":
            yield exchange(self.me, self.run, self.run if answer[1:3] == (self.run, "pending") else None, self.without)
            return
        if self.without is Without.ROWS_FIRST:
            yield "W rows", self.rows
        if self.hangs_up:
            yield from take_back(self.me, self.run, self.status[0], self.without)
        else:
            yield "answer", lambda db: db.__setitem__(("answered", self.run), True)


def remove_message(db: Database, message: Any) -> None:
    for key in [key for key in db if key[0] == "message" and key[1] == message]:
        del db[key]


def take_back(me: str, run: int, before: int, without: Without) -> Requests:
    """A claim that nobody was given: as if it had not been made. `before` is the version that it was decided on."""
    for _ in range(3):
        status, by = yield "R task", lambda db: (db["status"], db.get(("started", run), ""))
        is_claimed = status[2:4] == ("running", me)
        if not is_claimed and status[0] != before:
            if moment(by) != moment(me):
                yield exchange(me, run, run if status[1:3] == (run, "pending") else None, without)
            return
        if without is Without.MESSAGE_LAST:
            yield "D claim", lambda db: remove_message(db, (moment(me), run, db["now"]))
        answer: Any = "ok"
        if is_claimed or without is not Without.FENCED_DOUBT:
            answer = yield "★ back", _pending_again(status, run)
        if answer == "ok":
            break
        if answer is LOST:
            return
    else:
        return
    if (yield exchange(me, run, run, without)) is not LOST and is_claimed:
        yield (
            "D claim",
            lambda db: remove_message(db, next((k[1] for k in db if k[0] == "message" and k[1][0] == moment(me)), 0)),
        )


def _pending_again(status: Any, run: int) -> Callable[[Database], str]:
    def back(db: Database) -> str:
        if db["status"] != status:
            return "lost"
        db["status"] = (bump(db, "status"), run, "pending", "", 0)
        db.pop(("started", run), None)
        return "ok"

    return back


def on_claim(name: str, without: Without) -> Requests:
    """The handler of claim messages."""
    (me, run, began), now = yield "receive", lambda db: take(db, name)
    status = yield "R task", lambda db: db["status"]
    finish: Request = ("D", lambda db: done(db, name))
    holder, state = status[3], status[2]
    is_current = status[1] == run and state == "running" and (moment(holder) == me or without is Without.NAMED_ROW)
    if is_current and status[4] > now:
        yield "P again", lambda db: put(db, (me, run, began), status[4])
    elif is_current:

        def expire(db: Database) -> str:
            if db["status"] != status:
                return "lost"
            db["status"] = (bump(db, "status"), run + 1, "pending", "", 0)
            return "ok"

        yield "W pending", lambda db: db.__setitem__(("pending", run + 1), bump(db, ("pending", run + 1)))
        if (yield "★ expired", expire) == "ok":
            yield "W rows", lambda db: db.pop(("claimed", moment(holder), run), None) and None
        else:
            yield "P again", lambda db: put(db, (me, run, began), now)
    elif without is Without.LOOK_AT_PENDING and state == "pending":
        pass
    elif now - began < ORPHAN and without is not Without.AGE:
        yield "P again", lambda db: put(db, (me, run, began), began + ORPHAN)
    else:
        yield exchange(me, run, status[1] if state == "pending" else None, without)
    yield finish


def cancel() -> Requests:
    """cancelTask."""
    for _ in range(3):
        if (yield from _cancel_once()) != "lost":
            break


def _cancel_once() -> Generator[Request, Any, str]:
    status = yield "R task", lambda db: db["status"]
    _, run, state, holder, _ = status

    def commit(db: Database) -> str:
        if db["status"] != status:
            return "lost"
        db["status"] = (bump(db, "status"), run, "done", holder, 0)
        return "ok"

    if state == "done" or (yield "★ canceled", commit) == "lost":
        return "over" if state == "done" else "lost"
    row = ("claimed", moment(holder), run) if state == "running" else ("pending", run)
    yield "W rows", lambda db: db.pop(row, None) and None
    return "over"


def touch() -> Requests:
    """Another commit that leaves the run pending, as changeTaskPriority."""
    status = yield "R task", lambda db: db["status"] if db["status"][2] == "pending" else BLOCKED
    yield (
        "★",
        lambda db: db.__setitem__("status", (bump(db, "status"), *status[1:])) if db["status"] == status else None,
    )


def retry(me: str) -> Requests:
    """reportException of the run of a claim, which is retried."""
    status = yield "R task", lambda db: db["status"] if db["status"][2:4] == ("running", me) else BLOCKED

    def commit(db: Database) -> str:
        if db["status"] != status:
            return "lost"
        db["status"] = (bump(db, "status"), status[1] + 1, "pending", "", 0)
        return "ok"

    def rows(db: Database) -> None:
        db.pop(("claimed", moment(me), status[1]), None)
        db["pending", status[1] + 1] = bump(db, ("pending", status[1] + 1))

    if (yield "★ retried", commit) == "ok":
        yield "W rows", rows


def _end(me: str, run: int, without: Without) -> Generator[Request, Any, str]:
    """Ends the run of a claim, or keeps the claim from its commit."""
    status = yield "R task", lambda db: db["status"]
    is_running, is_pending = status[1:4] == (run, "running", me), status[1:3] == (run, "pending")
    if not is_running and (not is_pending or without is Without.FENCE):
        return "over"

    def commit(db: Database) -> str:
        if db["status"] != status:
            return "lost"
        db["status"] = (
            (bump(db, "status"), run + 1, "pending", "", 0) if is_running else (bump(db, "status"), *status[1:])
        )
        return "ok"

    def rows(db: Database) -> None:
        db.pop(("claimed", moment(me), run), None)
        db["pending", run + 1] = bump(db, ("pending", run + 1))

    if (yield "★ shutdown" if is_running else "★ fence", commit) == "lost":
        return "lost"
    if is_running:
        yield "W rows", rows
    return "over"


def removed(worker: str, without: Without) -> Requests:
    """workerRemoved."""
    yield "mark the worker", lambda db: db.__setitem__(("worker", worker), True)
    held = yield "R rows", lambda db: tuple((db[k][1], k[2]) for k in db if k[0] == "claimed" and db[k][0] == worker)
    for me, run in held:
        for _ in range(3):
            if (yield from _end(me, run, without)) != "lost":
                break
    yield "answer", lambda db: db.__setitem__(("gone", worker), True)


def listing() -> Requests:
    """A listing: rows, then the status; later the rows again, which vouch if they are the same."""

    def rows(db: Database) -> Any:
        return tuple(sorted((key, db[key]) for key in db if key[0] == "pending"))

    before = yield "R rows", rows
    status = yield "R task", lambda db: db["status"]
    if status[2] != "pending" or not before:
        return

    def again(db: Database) -> None:
        if db.get(("answered", status[1])) and rows(db) == before and db["status"][2] == "running":
            db["wrong"] = "a run is listed as pending whose claim was answered"

    yield "R rows", again


def start() -> Database:
    """One pending run."""
    return {"status": (0, 0, "pending", "", 0), ("pending", 0): 0}


def always(db: Database) -> str:
    """What is wrong at this moment."""
    _, run, state, me, _ = db["status"]
    if "wrong" in db:
        return str(db["wrong"])
    row = db.get(("claimed", moment(me), run))
    if state == "running" and row is None:
        return "a run that runs has no row"
    if row is not None and state == "running" and row[1] != me:
        return "the row of a run that runs is of another claim"
    if row is not None and state == "running" and db.get(("gone", row[0])):
        return "a run is given to a worker that was removed"
    return ""


def at_the_end(db: Database) -> str:
    """What is wrong when all messages are handled. A row of a pending run too many is the reconciler's."""
    _, run, state, me, until = db["status"]
    if state == "running" and until <= db["now"]:
        return "a claim is never ended"
    if state == "pending" and ("pending", run) not in db:
        return "a pending run has no row"
    if any(key[0] == "claimed" and (state != "running" or key[1:] != (moment(me), run)) for key in db):
        return "the row of a claim stays"
    return ""
