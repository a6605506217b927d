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

import pytest

from shared.base.dates import parse_date
from shared.base.ids import new_slugid
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


def group_resolved(service: Service, group: str) -> None:
    """Waits until the group is announced as resolved."""
    eventually(lambda: "task-group-resolved" in service.events.topics_of(group))


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


def test_edge_against_resolution(service: Service) -> None:
    pairs: list[tuple[str, str]] = []

    def one(each: Service) -> list[Callable[[], Any]]:
        required, dependent = str(each.claimed()["status"]["taskId"]), new_slugid()
        pairs.append((required, dependent))
        task = each.a_task(dependencies=[required])
        return [lambda: each.queue.createTask(dependent, task), lambda: each.queue.reportCompleted(required, 0)]

    created = set()
    for _, outcomes in race(service, one):
        assert refusals(outcomes) == []
        created.add(outcomes[0]["status"]["state"])
    assert created == {"unscheduled", "pending"}
    for _, dependent in pairs:
        status = service.wait_for(dependent, "pending")
        assert len(status["runs"]) == 1
    settle(service.running, [task_id for pair in pairs for task_id in pair])


def test_seal_against_create(service: Service) -> None:
    groups: dict[str, tuple[str, list[str]]] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        group = each.create()
        task_ids = [new_slugid() for _ in range(3)]
        groups[each.pool] = group, task_ids
        creations = [partial(each.queue.createTask, task_id, each.a_task(taskGroupId=group)) for task_id in task_ids]
        return [*creations, lambda: each.queue.sealTaskGroup(group)]

    sizes = set()
    for each, (*creations, sealed) in race(service, one):
        group, task_ids = groups[each.pool]
        assert set(refusals(creations)) <= {409}
        accepted = [task_id for task_id, made in zip(task_ids, creations, strict=True) if not isinstance(made, Refused)]
        sizes.add(len(accepted))
        listed = each.queue.listTaskGroup(group)
        assert listed["sealed"] == sealed["sealed"]
        assert sorted(entry["status"]["taskId"] for entry in listed["tasks"]) == sorted([group, *accepted])
        canceled = each.queue.cancelTaskGroup(group)
        assert (canceled["taskGroupSize"], sorted(canceled["taskIds"])) == (
            len(accepted) + 1,
            sorted([group, *accepted]),
        )
    assert sizes >= {0, 3}
    for group, task_ids in groups.values():
        group_resolved(service, group)
        settle(service.running, [group, *task_ids])


def test_rerun_against_resolution(service: Service) -> None:
    """And whatever comes first, the group resolves when all is done."""
    tasks: dict[str, str] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        task_id = tasks[each.pool] = str(each.claimed()["status"]["taskId"])
        return [lambda: each.queue.reportCompleted(task_id, 0), lambda: each.queue.rerunTask(task_id)]

    reruns: list[str] = []
    for each, outcomes in race(service, one):
        assert refusals(outcomes) == []
        task_id = tasks[each.pool]
        status = each.status(task_id)
        if len(status["runs"]) == 2:
            assert states(status) == [("completed", "completed"), ("pending", None)]
            (claim,) = each.claim()
            each.worker(claim).reportCompleted(task_id, 1)
            reruns.append(task_id)
        else:
            assert states(status) == [("completed", "completed")]
            assert outcomes[1]["status"]["state"] == "running"
    assert 0 < len(reruns) < ROUNDS
    for task_id in tasks.values():
        group_resolved(service, task_id)
        kinds = [event.kind for event in service.events.of(task_id)]
        assert kinds.count(("task-completed", 0)) == 1
        assert kinds.count(("task-completed", 1)) == (task_id in reruns)
    settle(service.running, tasks.values())


def test_a_rerun_right_after_a_resolution_keeps_its_messages_and_rows(service: Service) -> None:
    """The handler of the resolution comes later, and must leave alone what belongs to the rerun."""
    task_ids = []
    for _ in range(ROUNDS):
        each = Service(service.running)
        claim = each.claimed()
        task_id = claim["status"]["taskId"]
        task_ids.append(task_id)
        each.worker(claim).reportFailed(task_id, 0)
        each.queue.rerunTask(task_id)
        (claim,) = each.claim()
        assert (claim["status"]["taskId"], claim["runId"]) == (task_id, 1)
    settle(service.running, task_ids)


def test_one_of_two_reports_wins(service: Service) -> None:
    tasks: dict[str, str] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        task_id = tasks[each.pool] = str(each.claimed()["status"]["taskId"])
        return [
            lambda: each.queue.reportCompleted(task_id, 0),
            lambda: each.queue.reportFailed(task_id, 0),
            lambda: each.queue.reportException(task_id, 0, {"reason": "worker-shutdown"}),
            lambda: each.queue.cancelTask(task_id),
        ]

    reasons = set()
    for each, outcomes in race(service, one):
        status = each.status(tasks[each.pool])
        reason = status["runs"][0]["reasonResolved"]
        reasons.add(reason)
        *reports, canceled = outcomes
        wins = [not isinstance(each, Refused) for each in reports]
        assert set(refusals(outcomes)) <= {409}
        assert canceled["status"]["state"] in {"exception", "completed", "failed"}
        if reason == "worker-shutdown":
            assert wins == [False, False, True]
            assert states(status)[1:] == [("exception", "canceled")]
        else:
            assert len(status["runs"]) == 1
            assert wins == [reason == "completed", reason == "failed", False]
    assert reasons >= {"completed", "canceled"}
    settle(service.running, tasks.values())


def test_one_of_two_definitions_wins(service: Service) -> None:
    tasks: dict[str, str] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        task_id = tasks[each.pool] = new_slugid()
        first = each.a_task(payload={"n": 1})
        second = {**first, "payload": {"n": 2}}
        return [partial(each.queue.createTask, task_id, task) for task in (first, second, first, second)]

    winners = set()
    for each, outcomes in race(service, one):
        task_id = tasks[each.pool]
        winners.add(each.queue.task(task_id)["payload"]["n"])
        kept = each.queue.task(task_id)["payload"]["n"]
        assert [isinstance(each, Refused) for each in outcomes] == [kept == 2, kept == 1] * 2
        assert set(refusals(outcomes)) == {409}
        assert [claim["status"]["taskId"] for claim in each.claim()] == [task_id]
    assert winners == {1, 2}
    settle(service.running, tasks.values())


def test_one_rerun_one_schedule_one_seal(service: Service) -> None:
    tasks: dict[str, tuple[str, str]] = {}

    def one(each: Service) -> list[Callable[[], Any]]:
        done, waiting = each.completed(), each.create(dependencies=[each.create()])
        tasks[each.pool] = done, waiting
        calls = [
            lambda: each.queue.rerunTask(done),
            lambda: each.queue.scheduleTask(waiting),
            lambda: each.queue.sealTaskGroup(waiting),
        ]
        return calls * 2

    for each, outcomes in race(service, one):
        assert refusals(outcomes) == []
        done, waiting = tasks[each.pool]
        assert states(each.status(done)) == [("completed", "completed"), ("pending", None)]
        assert states(each.status(waiting)) == [("pending", None)]
        assert outcomes[2] == outcomes[5] == each.queue.getTaskGroup(waiting)
    settle(service.running, [task_id for pair in tasks.values() for task_id in pair])


@pytest.mark.parametrize("is_pending", [True, False], ids=["pending", "unscheduled"])
def test_ten_cancellations_at_once_are_one(service: Service, is_pending: bool) -> None:
    task_id = new_slugid()
    service.queue.createTask(task_id, service.a_task(dependencies=[] if is_pending else [task_id]))
    answers = at_once(*[partial(service.queue.cancelTask, task_id)] * 10)
    assert answers == [{"status": service.status(task_id)}] * 10
    assert states(service.status(task_id)) == [("exception", "canceled")]
    begun = [("task-defined", None), ("task-pending", 0)][: 1 + is_pending]
    service.events.expect(task_id, *begun, ("task-exception", 0), ("task-group-resolved", None))


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


def test_complete_against_expiry(hasty: Service) -> None:
    calls: list[Callable[[], Any]] = []
    claims: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        each = Service(hasty.running)
        claim = each.claimed(retries=1)
        claims.append(claim)
        complete = partial(each.queue.reportCompleted, claim["status"]["taskId"], 0)
        calls.append(at_expiry(each, claim, complete, number))
    outcomes = at_once(*calls)
    assert 0 < len(refusals(outcomes)) < ROUNDS
    for claim, reply in zip(claims, outcomes, strict=True):
        status = hasty.status(claim["status"]["taskId"])
        if isinstance(reply, Refused):
            assert reply.status == 409
            assert states(status) == [("exception", "claim-expired"), ("pending", None)]
        else:
            assert states(status) == [("completed", "completed")] == states(reply["status"])
    settle(hasty.running, [claim["status"]["taskId"] for claim in claims])
