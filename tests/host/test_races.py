"""Calls that meet at one task or group, sent to two hosts at the same moment: always one of the legal outcomes.

Each race is run several times side by side, every time on a task queue and a group of its own. In the first round each
call waits for the one before it, in the second for the one after it: so both outcomes occur in every run of a test
that accepts either, and are asserted to.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from shared.base.dates import parse_date
from tests.host.projections import settle
from tests.host.service import Refused, Service, at_once, eventually, outcome, refused
from tests.selection import ALL_TESTS

ROUNDS = 8 if os.environ.get(ALL_TESTS) else 4
"""The simulator goes through the orders of the same calls: these show that hosts and Azurite do as it does."""
ME = {"workerGroup": "g", "workerId": "w"}


def scattered(call: Callable[[], Any], most: float = 0.03) -> Callable[[], Any]:
    """The call a moment later, so that no side always comes first."""

    def later() -> Any:
        time.sleep(random.uniform(0, most))
        return call()

    return later


def in_turn(calls: Sequence[Callable[[], Any]]) -> list[Callable[[], Any]]:
    """The calls, each of which waits until the one before it has returned or was refused."""
    over = [threading.Event() for _ in calls]

    def taken(number: int) -> Any:
        if number:
            assert over[number - 1].wait(30)
        try:
            return calls[number]()
        finally:
            over[number].set()

    return [partial(taken, number) for number in range(len(calls))]


def race(service: Service, one: Callable[[Service], list[Callable[[], Any]]]) -> list[tuple[Service, list[Any]]]:
    """The outcomes of each round; `one` prepares a round and returns its calls."""
    rounds = [Service(service.running) for _ in range(ROUNDS)]
    first, second, *others = [one(each) for each in rounds]
    calls = [in_turn(first), in_turn(second[::-1])[::-1], *(list(map(scattered, each)) for each in others)]
    outcomes = iter(at_once(*(call for each in calls for call in each)))
    return [(each, [next(outcomes) for _ in made]) for each, made in zip(rounds, calls, strict=True)]


def refusals(outcomes: list[Any]) -> list[int]:
    """Status codes of the calls that were refused."""
    return [each.status for each in outcomes if isinstance(each, Refused)]


def first_resolved(service: Service, task_id: str) -> dict[str, Any]:
    """The first run of a task, once it is resolved."""

    def found() -> dict[str, Any] | None:
        run: dict[str, Any] = service.status(task_id)["runs"][0]
        return run if "resolved" in run else None

    return eventually(found)


def states(status: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(run["state"], run.get("reasonResolved")) for run in status["runs"]]


def test_cancel_against_claim(service: Service) -> None:
    tasks: dict[str, str] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        task_id = tasks[each.pool] = each.create()
        return [lambda: each.queue.claimWork(each.pool, ME), lambda: each.queue.cancelTask(task_id)]

    claimed = set()
    for each, (work, canceled) in race(service, one):
        status = each.status(tasks[each.pool])
        assert states(status) == [("exception", "canceled")] == states(canceled["status"])
        assert ("workerId" in status["runs"][0]) == bool(work["tasks"])
        claimed.add(bool(work["tasks"]))
        for claim in work["tasks"]:
            with refused(409, "RequestConflict"):
                each.worker(claim).reclaimTask(tasks[each.pool], 0)
    assert claimed == {True, False}
    settle(service.running, tasks.values())


def test_one_of_two_claims_of_a_run_wins(service: Service) -> None:
    tasks: dict[str, str] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        task_id = tasks[each.pool] = each.create()
        by_task = [
            partial(each.queue.claimTask, task_id, 0, {"workerGroup": "g", "workerId": name}) for name in ("a", "b")
        ]
        return [*by_task, lambda: each.queue.claimWork(each.pool, ME)]

    workers = set()
    for each, outcomes in race(service, one):
        assert set(refusals(outcomes)) <= {409}
        *by_task, polled = outcomes
        claims = [claim for claim in by_task if not isinstance(claim, Refused)] + polled["tasks"]
        assert len(claims) == 1
        (run,) = each.status(tasks[each.pool])["runs"]
        assert (run["workerId"], run["takenUntil"]) == (claims[0]["workerId"], claims[0]["takenUntil"])
        workers.add(run["workerId"])
    assert workers >= {"a", ME["workerId"]}
    settle(service.running, tasks.values())


def at_expiry(service: Service, claim: dict[str, Any], call: Callable[[], Any], number: int) -> Callable[[], Any]:
    """The call of that round: of the last when the claim has expired, of others at about takenUntil.

    That of the first round is made now: the claim may have expired when all rounds are prepared.
    """
    if number == 0:
        answered = outcome(call)
        return lambda: answered

    def later() -> Any:
        if number == ROUNDS - 1:
            first_resolved(service, claim["status"]["taskId"])
        else:
            until_expiry = (parse_date(claim["takenUntil"]) - datetime.now(UTC)).total_seconds()
            time.sleep(max(until_expiry + (number - 2) * 0.15, 0))
        return call()

    return later


def test_reclaim_against_expiry(hasty: Service) -> None:
    """By the timer, and by a poller who finds the message that has reappeared."""
    calls: list[Callable[[], Any]] = []
    claims: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        each = Service(hasty.running)
        claim = each.claimed()
        claims.append(claim)
        reclaim = partial(each.queue.reclaimTask, claim["status"]["taskId"], 0)
        calls.append(at_expiry(each, claim, reclaim, number))
        if number % 2:
            calls.append(at_expiry(each, claim, partial(each.queue.claimWork, each.pool, ME), number))
    outcomes = [each for each in at_once(*calls) if not (isinstance(each, dict) and "tasks" in each)]
    assert 0 < len(refusals(outcomes)) < ROUNDS
    for claim, reply in zip(claims, outcomes, strict=True):
        task_id = claim["status"]["taskId"]
        if isinstance(reply, Refused):
            assert reply.status == 409
            first = hasty.status(task_id)["runs"][0]
            assert first["takenUntil"] == claim["takenUntil"]
        else:
            first = first_resolved(hasty, task_id)
            assert first["takenUntil"] == reply["takenUntil"]
        assert first["reasonResolved"] == "claim-expired"
        assert first["resolved"] >= first["takenUntil"]
