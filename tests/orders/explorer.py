"""Every order in which the requests of a few small processes may take effect, and what a fault may do to one of them.

Storage is a dict. A process is a generator: each `yield` is one request, a function of the storage whose result it gets
as the answer. Time is a counter that may advance at any moment; a unit stands for a minute and more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

Database = dict[Any, Any]
Request = tuple[str, Callable[[Database], Any]]
Process = Callable[[], Generator[Request, Any, None]]

LATEST = 1
"""No write is sent later than this after its call began,"""
LATE = 1
"""and none takes effect later than this after it was sent."""
ORPHAN = 3
"""So old is what was written ahead of a commit that cannot come any more."""


class _Blocked:
    """The answer to a request that is not sent yet: what it waits for is not there."""


class _Lost:
    """The answer to a request whose outcome its process does not know."""


BLOCKED = _Blocked()
LOST = _Lost()


def is_too_late(db: Database, began: int) -> bool:
    """Whether a write takes effect, or would be sent, later than any does."""
    return bool(db["now"] - began > LATEST + db.get("late", 0))


_State = tuple[int, tuple[int, ...], int, tuple[tuple[int, int, int], ...]]
"""Storage, the place of each process (-1: it is over), faults left, requests that may come late, each of a process at
a place and sent at a time. Numbers stand for what `Explorer` has seen: they are compared millions of times."""

_Step = tuple[str, str, Any]
"""The process, its request and what became of it."""


class _Places:
    """Where a process may be: what it has been answered, by numbers. It starts at 0."""

    def __init__(self, name: str, process: Process) -> None:
        self._process, self.is_handler = process, name.startswith("on")
        self._answers: list[tuple[Any, ...]] = []
        self.requests: list[Request] = []
        """The next one at each place."""
        self._after: dict[tuple[int, Any], int] = {}
        first = self._place(())
        assert first == 0, "a process has a request"

    def after(self, place: int, answer: Any) -> int:
        """Where it is after its request at a place was answered so; a handler begins anew at its end."""
        key = place, answer
        if key not in self._after:
            self._after[key] = self._place((*self._answers[place], answer))
        return self._after[key]

    def _place(self, answers: tuple[Any, ...]) -> int:
        process = self._process()
        try:
            following = next(process)
            for answer in answers:
                following = process.send(answer)
        except StopIteration:
            return 0 if self.is_handler else -1
        self._answers.append(answers)
        self.requests.append(following)
        return len(self.requests) - 1


class Explorer:
    """Goes through all states of a model. A process whose name begins with "on" handles one message after the other.

    One of the `faulty` processes may die between two requests; or a request of it gets no answer, and takes effect at
    once, later, or never: `faults` of these in all.
    """

    def __init__(self, processes: Mapping[str, Process], *, end: int, faults: int, faulty: tuple[str, ...]) -> None:
        self._end, self._faults, self._names = end, faults, tuple(processes)
        self._is_faulty = [name in faulty for name in processes]
        self._places = [_Places(name, process) for name, process in processes.items()]
        self._storages: list[Database] = []
        self._numbers: dict[frozenset[tuple[Any, Any]], int] = {}
        self._effects: dict[tuple[int, int, int], tuple[int, Any, int] | None] = {}
        self._passed: dict[int, int] = {}

    def holes(
        self,
        start: Database,
        always: Callable[[Database], str],
        at_the_end: Callable[[Database], str],
        most: int = 400_000,
        *,
        only_first: bool = False,
    ) -> dict[str, list[str]]:
        """What goes wrong, each with an order of requests that leads there; `only_first`: not looking any further."""
        first: _State = self._number({**start, "now": 0}), (0,) * len(self._names), self._faults, ()
        came_from: dict[_State, tuple[_State, _Step] | None] = {first: None}
        left, found = [first], dict[str, _State]()
        looked_at: dict[int, str] = {}
        while left:
            assert len(came_from) <= most, "the model is too large"
            state = left.pop()
            storage = state[0]
            if storage not in looked_at:
                looked_at[storage] = always(self._storages[storage])
            wrong = looked_at[storage]
            following = [] if wrong else list(self._following(state))
            if wrong or (not following and (wrong := at_the_end(self._storages[storage]))):
                found.setdefault(wrong, state)
                if only_first:
                    break
            for after, step in following:
                if after not in came_from:
                    came_from[after] = state, step
                    left.append(after)
        return {wrong: self._path(came_from, state) for wrong, state in found.items()}

    def _number(self, db: Database) -> int:
        number = self._numbers.setdefault(frozenset(db.items()), len(self._storages))
        if number == len(self._storages):
            self._storages.append(db)
        return number

    def _effect(self, storage: int, at: int, place: int) -> tuple[int, Any, int] | None:
        """Storage after the request of a process at a place, the answer, and the place after it; None: not sent yet."""
        key = storage, at, place
        if key not in self._effects:
            after = dict(self._storages[storage])
            answer = self._places[at].requests[place][1](after)
            self._effects[key] = (
                None if answer is BLOCKED else (self._number(after), answer, self._places[at].after(place, answer))
            )
        return self._effects[key]

    def _following(self, state: _State) -> Iterator[tuple[_State, _Step]]:
        storage, places, faults, under_way = state
        for at, place in enumerate(places):
            if place >= 0:
                yield from self._sent(state, at, place)
        for late in under_way:
            at, place, _ = late
            rest = tuple(each for each in under_way if each is not late)
            label, effect = self._places[at].requests[place]
            after = {**self._storages[storage], "late": LATE}
            effect(after)
            del after["late"]
            yield (self._number(after), places, faults, rest), (self._names[at], label, "late")
            yield (storage, places, faults, rest), (self._names[at], label, "never")
        now = self._storages[storage]["now"]
        is_busy = any(each.is_handler and place > 0 for each, place in zip(self._places, places, strict=True))
        if now < self._end and not is_busy and all(now < sent + LATE for *_, sent in under_way):
            if storage not in self._passed:
                self._passed[storage] = self._number({**self._storages[storage], "now": now + 1})
            yield (self._passed[storage], places, faults, under_way), ("time", "passes", "")

    def _sent(self, state: _State, at: int, place: int) -> Iterator[tuple[_State, _Step]]:
        """What may become of a process's next request, and of itself."""
        storage, places, faults, under_way = state
        sent = self._effect(storage, at, place)
        if sent is None:
            return
        applied, answer, heard = sent
        name, (label, _) = self._names[at], self._places[at].requests[place]
        before, behind = places[:at], places[at + 1 :]
        yield (applied, (*before, heard, *behind), faults, under_way), (name, label, answer)
        if not faults or not self._is_faulty[at] or not place:
            return
        is_handler = self._places[at].is_handler
        gone, undone = -1, storage
        if is_handler:
            gone, undone = 0, self._put_back(storage, name)
        yield (undone, (*before, gone, *behind), faults - 1, under_way), (name, label, "dies before")
        if not is_handler and not label.startswith("R "):
            lost = (*before, self._places[at].after(place, LOST), *behind)
            yield (applied, lost, faults - 1, under_way), (name, label, "no answer")
            late = tuple(sorted((*under_way, (at, place, self._storages[storage]["now"]))))
            yield (storage, lost, faults - 1, late), (name, label, "no answer yet")

    def _put_back(self, storage: int, handler: str) -> int:
        db = self._storages[storage]
        if ("held", handler) not in db:
            return storage
        after = dict(db)
        put(after, after.pop(("held", handler)), after["now"])
        return self._number(after)

    def _path(self, came_from: Mapping[_State, tuple[_State, _Step] | None], state: _State) -> list[str]:
        steps: list[str] = []
        while (before := came_from[state]) is not None:
            state, (name, label, outcome) = before
            steps.append(f"{self._storages[state[0]]['now']} {name}: {label}: {outcome}")
        return steps[::-1]


def bump(db: Database, key: Any) -> int:
    """The next version of what is stored there: like an ETag, it says nothing of what is stored elsewhere."""
    db["versions", key] = db.get(("versions", key), 0) + 1
    return int(db["versions", key])


def put(db: Database, body: Any, visible: int) -> None:
    """Puts a message."""
    key = ("message", body, visible)
    db[key] = db.get(key, 0) + 1


def take(db: Database, handler: str) -> Any:
    """The first visible message, which the handler holds from now on; BLOCKED when there is none."""
    visible = sorted((key for key in db if key[0] == "message" and key[2] <= db["now"]), key=lambda key: str(key))
    if not visible:
        return BLOCKED
    db[visible[0]] -= 1
    if not db[visible[0]]:
        del db[visible[0]]
    db["held", handler] = visible[0][1]
    return visible[0][1], db["now"]


def done(db: Database, handler: str) -> None:
    """The handler deletes its message."""
    db.pop(("held", handler), None)
