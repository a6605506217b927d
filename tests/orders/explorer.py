"""Every order in which the requests of a few small processes may take effect, and what a fault may do to one of them.

Storage is a dict. A process is a generator: each `yield` is one request, a function of the storage whose result it gets
as the answer. Time is a counter that may advance at any moment; a unit stands for a minute and more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

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


class _State(NamedTuple):
    """Storage, the answers that each process has had (None: it is over), faults left, requests that may come late."""

    storage: frozenset[tuple[Any, Any]]
    answers: tuple[tuple[Any, ...] | None, ...]
    faults: int
    under_way: tuple[tuple[str, tuple[Any, ...], int], ...] = ()

    def heard(self, at: int, answers: tuple[Any, ...] | None) -> tuple[tuple[Any, ...] | None, ...]:
        return (*self.answers[:at], answers, *self.answers[at + 1 :])


class Explorer:
    """Goes through all states of a model. A process whose name begins with "on" handles one message after the other.

    One of the `faulty` processes may die between two requests; or a request of it gets no answer, and takes effect at
    once, later, or never: `faults` of these in all.
    """

    def __init__(self, processes: Mapping[str, Process], *, end: int, faults: int, faulty: tuple[str, ...]) -> None:
        self._processes, self._end, self._faults, self._faulty = processes, end, faults, faulty
        self._names = tuple(processes)
        self._requests: dict[tuple[str, tuple[Any, ...]], Request | None] = {}

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
        first = _State(frozenset({**start, "now": 0}.items()), ((),) * len(self._names), self._faults)
        came_from: dict[_State, tuple[_State, str] | None] = {first: None}
        left, found = [first], dict[str, _State]()
        while left:
            assert len(came_from) <= most, "the model is too large"
            state = left.pop()
            wrong = always(dict(state.storage))
            following = [] if wrong else list(self._following(state))
            if wrong or (not following and (wrong := at_the_end(dict(state.storage)))):
                found.setdefault(wrong, state)
                if only_first:
                    break
            for after, step in following:
                if after not in came_from:
                    came_from[after] = state, step
                    left.append(after)
        return {wrong: _path(came_from, state) for wrong, state in found.items()}

    def _request(self, name: str, answers: tuple[Any, ...]) -> Request | None:
        """The next one of a process that has had these answers; None at its end."""
        if (name, answers) not in self._requests:
            process = self._processes[name]()
            try:
                following: Request | None = next(process)
                for answer in answers:
                    following = process.send(answer)
            except StopIteration:
                following = None
            self._requests[name, answers] = following
        return self._requests[name, answers]

    def _following(self, state: _State) -> Iterator[tuple[_State, str]]:
        now = dict(state.storage)["now"]
        for at, (name, answers) in enumerate(zip(self._names, state.answers, strict=True)):
            if answers is not None:
                yield from self._sent(state, at, name, answers)
        for at, (name, answers, _) in enumerate(state.under_way):
            label, effect = self._request(name, answers) or ("", bool)
            rest = (*state.under_way[:at], *state.under_way[at + 1 :])
            after = {**dict(state.storage), "late": LATE}
            effect(after)
            del after["late"]
            late = state._replace(storage=frozenset(after.items()), under_way=rest)
            yield late, f"{now} {name}: {label}, late"
            yield state._replace(under_way=rest), f"{now} {name}: {label}, never"
        is_busy = any(
            name.startswith("on") and answers for name, answers in zip(self._names, state.answers, strict=True)
        )
        if now < self._end and not is_busy and all(now < sent + LATE for *_, sent in state.under_way):
            later = {**dict(state.storage), "now": now + 1}
            yield state._replace(storage=frozenset(later.items())), "time passes"

    def _sent(self, state: _State, at: int, name: str, answers: tuple[Any, ...]) -> Iterator[tuple[_State, str]]:
        """What may become of a process's next request, and of itself."""
        label, effect = self._request(name, answers) or ("", lambda _: BLOCKED)
        before, is_handler = dict(state.storage), name.startswith("on")
        text = f"{before['now']} {name}: {label}"
        after = dict(before)
        answer = effect(after)
        if answer is BLOCKED:
            return

        def heard(heard: Any) -> tuple[tuple[Any, ...] | None, ...]:
            more = (*answers, heard)
            is_over = self._request(name, more) is None
            return state.heard(at, (() if is_handler else None) if is_over else more)

        applied = state._replace(storage=frozenset(after.items()), answers=heard(answer))
        yield applied, f"{text}: {answer}"
        if not state.faults or name not in self._faulty or not answers:
            return
        left = state._replace(faults=state.faults - 1)
        if is_handler:
            _put_back(before, name)
        gone = state.heard(at, () if is_handler else None)
        yield left._replace(storage=frozenset(before.items()), answers=gone), f"{text}: dies before"
        if not is_handler and not label.startswith("R "):
            yield left._replace(storage=applied.storage, answers=heard(LOST)), f"{text}: no answer"
            late = (*state.under_way, (name, answers, before["now"]))
            yield left._replace(answers=heard(LOST), under_way=late), f"{text}: no answer yet"


def _path(came_from: Mapping[_State, tuple[_State, str] | None], state: _State) -> list[str]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        state, step = before
        steps.append(step)
    return steps[::-1]


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


def _put_back(db: Database, handler: str) -> None:
    if ("held", handler) in db:
        put(db, db.pop(("held", handler)), db["now"])
