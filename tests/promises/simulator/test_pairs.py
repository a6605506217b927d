"""Every pair of calls and handlers that share a task, a group or a pool is interleaved at every request, reads
included. `test_interleavings` says for chosen pairs how each order may end; here only the invariants judge, but of all
pairs in all situations. Triples meet in orders that a seed chooses."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from shared.app.services import Services
from shared.base.dates import format_date
from shared.base.errors import ApiError
from shared.queue.events.announcer import EventsUnavailable
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE, decode_body
from shared.queue.tasks.rules import Resolved
from shared.store.interface import Receipt, ReceiptLost, StorageUnavailable
from tests.parts.twin.driver import Choose, Simulation, TooManyOrders
from tests.parts.twin.gate import as_process
from tests.parts.twin.reduction import explore_distinct
from tests.promises.simulator import artifact_parties, invariants, parties, races
from tests.promises.simulator.artifact_scenarios import blob_uploaded, direct
from tests.promises.simulator.company import create_again, expire, one_after_the_other, remove_worker
from tests.promises.simulator.daily import SEED_VARIABLE, todays_seed
from tests.promises.simulator.expiring import HOUR
from tests.promises.simulator.parties import Party
from tests.promises.simulator.running import finish
from tests.promises.simulator.situations import (
    GROUP,
    OTHER_GROUP,
    A,
    B,
    C,
    Step,
    a_runs_b_waits,
    completed,
    failed_and_completed_again,
    opened_again,
    pending,
    retried,
    running_without_retries,
)
from tests.promises.simulator.world import World, resolved_message

PAIRS = 8
TRIPLES = 4
"""Number of triples of each situation without `--all`, each in one order."""
ORDERS = 200
"""The most orders of a pair in the large suite; pairs with more of them are left out."""
SECONDS = float(os.environ.get("PAIRS_SECONDS", "8"))
"""Seconds of CPU time for all orders of as many pairs of a situation as it allows; how far it came is printed."""

_LOOKS = 6


async def resolved_due(world: World, services: Services) -> object:
    """Takes the first resolved message that comes up, as the host does, has it handled and deletes it. However soon
    that is: the commit that it was put for may be the slower one."""
    for _ in range(_LOOKS):
        for message in world.memory.messages(RESOLVED_QUEUE):
            receipt = Receipt(message_id=message.message_id, pop_receipt=message.pop_receipt, visible=message.visible)
            await services.resolution.resolved_due(resolved_message(decode_body(message.text)))
            with suppress(ReceiptLost):
                await world.memory.queues.delete_message(RESOLVED_QUEUE, receipt)
            return None
        await world.memory.queues.peek(RESOLVED_QUEUE)
    return None


PARTIES: Mapping[str, Party] = {
    "claimWork": parties.claim("one"),
    "claimTask": parties.claim_task(A, "two"),
    "reclaimTask": parties.reclaim(A),
    "reportCompleted": parties.report(A),
    "reportCompleted, its handler": one_after_the_other(parties.report(A), resolved_due),
    "reportFailed": parties.report(A, Resolved.FAILED),
    "reportException": parties.report_exception(A, Resolved.WORKER_SHUTDOWN),
    "cancelTask": parties.cancel(A),
    "cancelTask of the dependent": parties.cancel(B),
    "rerunTask": parties.rerun(A),
    "scheduleTask": parties.schedule(B),
    "changeTaskPriority": parties.change_priority(A, "high"),
    "createTask again": create_again,
    "createTask of a dependent": parties.create(C, dependencies=[A]),
    "createTask of a dependent that knows it": parties.create_knowing(C, dependencies=[A]),
    "createTask of a dependent of another group": parties.create(C, dependencies=[A], taskGroupId=OTHER_GROUP),
    "createTask of a dependent of two": parties.create(C, dependencies=[A, B]),
    "sealTaskGroup": parties.seal,
    "sealTaskGroup, cancelTaskGroup": parties.seal_and_cancel,
    "claim message": parties.claim_due(A),
    "deadline message": parties.deadline_due(A),
    "resolved message": resolved_due,
    "reconciler": parties.reconcile,
    "workerRemoved": remove_worker,
    "createArtifact, a reference": artifact_parties.create_reference,
    "createArtifact, a blob": artifact_parties.create_blob,
    "completeArtifact": artifact_parties.complete_blob,
    "createArtifact, direct, getArtifact": artifact_parties.create_and_read_direct,
    "expiry job": expire,
}


async def expired(world: World) -> None:
    """A, with an artifact, was completed and has just expired; B, of the same group, is running."""
    expires = format_date(world.clock.now() + timedelta(hours=3))
    await world.create(A, taskGroupId=GROUP, expires=expires)
    assert await world.claim()
    await direct(world, "public/old.txt")
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(4.5 * HOUR)
    await world.create(B, taskGroupId=GROUP)
    assert await world.claim()


SITUATIONS: Mapping[str, Step] = {
    step.__name__: step
    for step in (
        pending,
        a_runs_b_waits,
        running_without_retries,
        retried,
        completed,
        races.just_completed,
        races.lapsed,
        races.late,
        races.late_and_lapsed,
        races.forgotten,
        opened_again,
        failed_and_completed_again,
        blob_uploaded,
        expired,
    )
}


def _meet(
    situation: str, names: tuple[str, ...], simulation: Simulation, version: Choose | None = None, *, followed: int = 0
) -> None:
    """Runs one order of the parties' requests to its end. Each party's process remembers each task as of a `version`,
    if that is given, and follows up to `followed` resolutions itself."""
    world = World(simulation, is_ordered=False)
    world.run(SITUATIONS[situation](world))
    definition = world.definition().body
    world.fixed = {name: definition[name] for name in ("created", "deadline", "expires")}
    processes = [world.process(max_followed_resolutions=followed) for _ in names]
    if version is not None:
        world.run(*(world.remember(services, version) for services in processes))
    world.is_ordered = True
    calls = [_to_the_end(PARTIES[name], world, services) for name, services in zip(names, processes, strict=True)]
    outcomes = simulation.outcomes(*(as_process(str(number), party) for number, party in enumerate(calls)))
    world.is_ordered = False
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(
            outcome, ApiError | StorageUnavailable | EventsUnavailable
        ):
            raise outcome
    invariants.check(world)
    failed = any(isinstance(outcome, BaseException) for outcome in outcomes)
    finish(world, is_acknowledged=not failed, settles=False)


async def _to_the_end(party: Party, world: World, services: Services) -> object:
    try:
        return await party(world, services)
    finally:
        await services.following.finish(60)


def _meet_by_chance(situation: str, names: tuple[str, ...], seed: str) -> None:
    chance = random.Random(f"{seed} {situation} {names}")
    simulation = Simulation(_stretches(chance), yield_after=True)
    try:
        version = chance.choice((None, _latest, chance.randrange))
        _meet(situation, names, simulation, version, followed=chance.choice((0, 1)))
    except BaseException as failure:
        failure.add_note(f"{' | '.join(names)}: {SEED_VARIABLE}={seed}")
        raise


def _latest(versions: int) -> int:
    return versions - 1


def _stretches(chance: random.Random) -> Choose:
    """Chooses orders in which one party gets far ahead of the others more often than when each choice is fair. Most of
    what goes wrong needs few switches between the parties at the right moments: the request that has come last is
    mostly of the party that was let through last."""
    persistence = chance.choice((0.0, 0.7, 0.9))
    return lambda options: options - 1 if chance.random() < persistence else chance.randrange(options)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_pairs_and_triples_by_chance(situation: str) -> None:
    """Some pairs and triples break no invariant, each in one order of its requests and answers."""
    seed = todays_seed()
    chance = random.Random(f"{seed} {situation}")
    pairs = list(itertools.combinations_with_replacement(PARTIES, 2))
    triples = list(itertools.combinations_with_replacement(PARTIES, 3))
    for names in (*chance.sample(pairs, PAIRS), *chance.sample(triples, TRIPLES)):
        _meet_by_chance(situation, names, seed)


@pytest.mark.large
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_pair(situation: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every pair breaks no invariant in a random order, and as many as the time allows in every order that matters."""
    seed = todays_seed()
    pairs = list(itertools.combinations_with_replacement(PARTIES, 2))
    for names in pairs:
        _meet_by_chance(situation, names, seed)
    random.Random(f"{seed} {situation}").shuffle(pairs)
    started, looked_at, exhausted = time.process_time(), 0, 0
    while looked_at < len(pairs) and time.process_time() - started < SECONDS:
        exhausted += _meet_in_every_order(situation, pairs[looked_at])
        looked_at += 1
    with capsys.disabled():
        print(f"\n{situation}: {len(pairs)} pairs in one order; of {looked_at} tried, {exhausted} in all orders")
    assert looked_at, "the time allows for a pair"


def _meet_in_every_order(situation: str, names: tuple[str, ...]) -> bool:
    """Tries every order, and returns False if there are too many; those that were tried have ended well."""
    try:
        explore_distinct(partial(_meet, situation, names, version=_latest), limit=ORDERS, in_order=True)
    except TooManyOrders:
        return False
    except BaseException as failure:
        failure.add_note(" | ".join(names))
        raise
    return True
