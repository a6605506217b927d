"""Situations in which something has just been left that will age: by a call that died, or for good."""

from __future__ import annotations

from datetime import timedelta

from shared.auth.clients.accounts import CreateClientRequest
from shared.base.dates import format_date
from shared.base.protocol import EXPIRY_GRACE_PERIOD, ROWS_COMPLETE_AFTER
from shared.queue.pools.directory import Declaration
from shared.queue.pools.states import ASKED_LATELY
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, DEADLINE_QUEUE, RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import Merge, Upsert
from tests.promises.simulator import parties
from tests.promises.simulator.depending import write_edges
from tests.promises.simulator.expiring import CLIENT, everybody
from tests.promises.simulator.probing import At, Probe, commit
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, B, C, fixed
from tests.promises.simulator.world import POOL, WORKER

HOUR = 3600.0


def lose(world: Probe, queue: str) -> None:
    """Deletes the messages of a queue, as somebody may."""
    world.memory.queues._queues[queue].clear()


def lose_pending(world: Probe) -> None:
    """Deletes the messages of pending runs, as somebody with poll URLs may."""
    for queue in world.memory.queues.names():
        if queue.startswith("pending-"):
            lose(world, queue)


async def schedule(world: Probe, kind: str, *words: str, **values: str) -> None:
    """Adds a row of the Expiry table that is due already."""
    hour = world.clock.now() - timedelta(hours=3)
    await world.services.expiration._expiry.finished_before(hour)
    bucket = keys.hour(hour)
    rows = [Upsert(keys.expiring(kind, *words), dict(values))]
    await world.account.connect().tables.transact(keys.EXPIRY, bucket, rows)


# Of calls that died


async def dead_create(world: Probe) -> None:
    """createTask of A has died."""
    await world.dies(world.create(A, taskGroupId=GROUP))


async def dead_create_without_message(world: Probe) -> None:
    """createTask of A has died, and somebody has deleted its message."""
    await dead_create(world)
    lose_pending(world)


async def dead_create_beside_completed(world: Probe) -> None:
    """createTask of A has died, in a group whose other task has just been completed."""
    await world.create(C, taskGroupId=GROUP)
    assert await world.claim()
    await world.services.lifecycle.report(C, 0, Resolved.COMPLETED)
    await dead_create(world)


async def dead_dependent(world: Probe, task_group_id: str = GROUP) -> None:
    """createTask of B, which depends on A, has died. A is completed, and that has yet to be followed up."""
    await world.create(A, taskGroupId=GROUP)
    assert await world.claim()
    await world.dies(world.create(B, taskGroupId=task_group_id, dependencies=[A]))
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def dead_dependent_elsewhere(world: Probe) -> None:
    """The same as `dead_dependent`, with B in another group."""
    await dead_dependent(world, OTHER_GROUP)


async def dead_dependent_seen(world: Probe) -> None:
    """createTask of B has died, and the handler of A has found B's edge: a message leads to it."""
    await dead_dependent(world)
    await parties.handle_resolved(A)(world, world.services)
    _keep_messages_with(world, "waiting")


async def dead_dependent_elsewhere_seen(world: Probe) -> None:
    """The same as `dead_dependent_seen`, with B in another group."""
    await dead_dependent_elsewhere(world)
    await parties.handle_resolved(A)(world, world.services)
    _keep_messages_with(world, "waiting")


def _keep_messages_with(world: Probe, word: str) -> None:
    held = world.memory.queues._queues[RESOLVED_QUEUE]
    for key, (body, _) in zip(list(held), world.messages(RESOLVED_QUEUE), strict=True):
        if word not in body:
            del held[key]


async def dead_report(world: Probe) -> None:
    """reportCompleted of A has died."""
    await running(world)
    await world.dies(world.services.lifecycle.report(A, 0, Resolved.COMPLETED))


async def dead_rerun(world: Probe) -> None:
    """rerunTask of A has died, while C, of the same group, has just been completed."""
    await world.create(A, taskGroupId=GROUP)
    await world.create(C, taskGroupId=GROUP)
    assert len(await world.claim(2)) == 2
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await parties.resolved_due(A)(world, world.services)
    await world.services.lifecycle.report(C, 0, Resolved.COMPLETED)
    await world.dies(world.services.lifecycle.rerun(await world.services.lifecycle.existing(A)))


async def dead_claim(world: Probe, at: At = commit) -> None:
    """claimWork of A has died."""
    await world.create(A, taskGroupId=GROUP)
    await world.dies(world.claim(), at)


async def dead_create_in_a_due_group(world: Probe) -> None:
    """createTask of A has died, and the expiry job comes to its group."""
    await dead_create(world)
    await schedule(world, keys.SWEPT_GROUP, GROUP)


async def dead_dependent_of_nothing(world: Probe) -> None:
    """createTask of B, which depends on A, has died. There is no A, and the expiry job comes to A's group, not B's."""
    await world.services.stores.tasks.edges.rewrite(A, B)
    await schedule(world, "task", A, GROUP, taskGroupId=GROUP)


# Tasks


async def dates(world: Probe) -> None:
    """Nothing but the dates of a task exists."""
    definition = world.definition(A, taskGroupId=GROUP).body
    world.fixed = {name: definition[name] for name in ("created", "deadline", "expires")}


async def pending(world: Probe) -> None:
    """A has become pending."""
    await dates(world)
    await world.create(A, taskGroupId=GROUP, **fixed(world))


async def running(world: Probe) -> None:
    """A was claimed."""
    await pending(world)
    assert await world.claim()


async def completed(world: Probe) -> None:
    """A was completed, and that has yet to be followed up."""
    await running(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def excepted(world: Probe) -> None:
    """A has ended as an exception."""
    await running(world)
    await world.services.lifecycle.report_exception(A, 0, Resolved.MALFORMED_PAYLOAD)


async def running_again(world: Probe) -> None:
    """A was completed, opened again, and claimed."""
    await known_to_be_completed(world)
    await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
    assert await world.claim()


async def raised(world: Probe) -> None:
    """The priority of A was changed."""
    await pending(world)
    await parties.change_priority(A, "high")(world, world.services)


async def raised_and_cancelled(world: Probe) -> None:
    """The priority of A was changed, and A cancelled at once."""
    await pending(world)
    await parties.change_priority(A, "high")(world, world.services)
    await parties.cancel(A)(world, world.services)


async def completed_in_company(world: Probe) -> None:
    """C was completed, and that has yet to be followed up; A, of the same group, is pending."""
    await world.create(C, taskGroupId=GROUP)
    assert await world.claim()
    await world.services.lifecycle.report(C, 0, Resolved.COMPLETED)
    await pending(world)


async def checked_in_company(world: Probe) -> None:
    """C was completed and followed up, and so its group was checked; A, of the same group, is pending."""
    await completed_in_company(world)
    await parties.handle_resolved(C)(world, world.services)


async def completed_and_forgotten(world: Probe) -> None:
    """A and C are completed, and the resolved message of A is lost."""
    await world.create(C, taskGroupId=GROUP)
    await running(world)
    assert await world.claim()
    await world.services.lifecycle.report(C, 0, Resolved.COMPLETED)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    lose(world, RESOLVED_QUEUE)


async def lost_message(world: Probe) -> None:
    """A is pending, and its message is lost."""
    await pending(world)
    lose_pending(world)


async def lost_deadline(world: Probe) -> None:
    """A is pending, and its deadline message is lost."""
    await pending(world)
    lose(world, DEADLINE_QUEUE)


async def lost_timers(world: Probe) -> None:
    """A is running, and its timers are lost."""
    await running(world)
    lose(world, DEADLINE_QUEUE)
    lose(world, CLAIM_QUEUE)


async def listed_group(world: Probe) -> None:
    """Ten tasks of a group were created, and then listed."""
    for _ in range(10):
        await world.create(taskGroupId=GROUP)
    await world.clock.sleep(1.2)
    await world.services.groups.list(GROUP, start="", limit=1000)


async def known_to_be_completed(world: Probe) -> None:
    """A was completed by this process, which has followed it up."""
    await completed(world)
    await parties.handle_resolved(A)(world, world.services)


# Task queues and workers


async def asked_for_work(world: Probe) -> None:
    """A worker has asked for work in vain, and its wait was noted."""
    assert await world.services.work.claim_work(POOL, WORKER, 1, 0.4) == []


async def waits_for_a_silent_worker(world: Probe) -> None:
    """No worker has asked for long, and A has just become pending."""
    await asked_for_work(world)
    await world.clock.sleep(ASKED_LATELY.total_seconds() + 1)
    await pending(world)


async def waits_for_a_worker(world: Probe) -> None:
    """A has waited for long, and a worker has just asked for work in a task queue of which it is not given any."""
    await pending(world)
    await world.clock.sleep(HOUR)
    lose_pending(world)
    await asked_for_work(world)


async def unused_pool(world: Probe) -> None:
    """A pool was used for the last time."""
    await known_to_be_completed(world)


async def deleted_queues(world: Probe) -> None:
    """The queues of a pool were deleted, as it was not used."""
    await known_to_be_completed(world)
    await world.clock.sleep(31 * 24 * HOUR)
    await world.process().reconciler.check_pool(POOL)


async def declared_worker(world: Probe) -> None:
    """A worker has declared itself, for a day."""
    await world.services.workers.declare(POOL, WORKER, world.clock.now() + timedelta(days=1))


async def quarantined_worker(world: Probe) -> None:
    """A worker was quarantined, for a month."""
    await asked_for_work(world)
    until = world.clock.now() + timedelta(days=30)
    await world.services.workers.quarantine(POOL, WORKER, until, client_id="somebody", info="")


async def declared_task_queue(world: Probe) -> None:
    """A task queue was declared."""
    await world.services.directory.declare_task_queue(POOL, Declaration())


# What health looks at


async def message_at_the_front(world: Probe) -> None:
    """A message is visible that no function receives, and was seen so."""
    await completed(world)
    await world.clock.sleep(30)
    await world.services.health.findings()


async def finished_job(world: Probe) -> None:
    """The expiry job has just done all that was due."""
    await pending(world)
    world.clock.advance(HOUR - world.clock.elapsed % HOUR + ROWS_COMPLETE_AFTER.total_seconds())
    await world.services.expiration.run(60)


async def client(world: Probe) -> None:
    """A client was created, for two years."""
    request = CreateClientRequest(
        description="",
        expires=format_date(world.clock.now() + timedelta(days=730)),
        scopes=[],
        deleteOnExpiration=False,
    )
    await world.services.clients.make_client(CLIENT, request, everybody)


async def refused_client(world: Probe) -> None:
    """A client has been refused for a while."""
    refused = world.services.health._refused
    refused.note_refusal(CLIENT, "ended")
    await world.clock.sleep(121)
    refused.note_refusal(CLIENT, "ended")
    await refused.flush()


# What expires


async def expired(world: Probe) -> None:
    """A was completed long ago, and has just expired."""
    await world.create(A, taskGroupId=GROUP, **_dates_to_the_hour(world))
    assert await world.claim()
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(30)
    await _to_the_end(world)


async def expired_in_another_group(world: Probe) -> None:
    """A has just expired, and the expiry job comes to it for a group that it is not in."""
    await expired(world)
    await schedule(world, "task", A, OTHER_GROUP, taskGroupId=OTHER_GROUP)


async def expired_unresolved(world: Probe) -> None:
    """A is pending, and has just expired; the expiry job comes to it."""
    await world.create(A, taskGroupId=GROUP, **_dates_to_the_hour(world))
    await _to_the_end(world)
    await schedule(world, "task", A, GROUP, taskGroupId=GROUP)


async def expired_with_a_due_group(world: Probe) -> None:
    """A was completed long ago; the check of its group was not handled. The group has just expired, and the expiry job
    comes to it."""
    await expired(world)
    world.clock.advance(HOUR)
    await world.account.connect().tables.transact(keys.GROUPS, GROUP, [Merge(keys.DUE, {"resolution": f"{A}~0000"})])
    await schedule(world, keys.SWEPT_GROUP, GROUP)


async def expired_unresolved_and_deadly(world: Probe) -> None:
    """A is pending, and has just expired; the expiry job has died of its group twice, and comes to it again."""
    await expired_unresolved(world)
    hour = keys.hour(world.clock.now() - timedelta(hours=3))
    rows = [Upsert(keys.expiring(keys.SWEPT_GROUP, GROUP), {"failures": 2, "deaths": 2})]
    await world.account.connect().tables.transact(keys.EXPIRY, hour, rows)


async def expired_with_an_unsent_event(world: Probe) -> None:
    """A was completed long ago and has just expired; events wait for Service Bus. The expiry job comes to it."""
    await expired(world)
    await world.services.stores.messages.put_pointer("{}")
    await schedule(world, "task", A, GROUP, taskGroupId=GROUP)


async def expired_with_a_new_edge(world: Probe) -> None:
    """A has expired, and somebody has just written an edge out of it; the expiry job comes to its group."""
    await expired(world)
    world.clock.advance(EXPIRY_GRACE_PERIOD.total_seconds())
    await write_edges(world, GROUP, C, [A])
    await schedule(world, keys.SWEPT_GROUP, GROUP)


async def expired_with_a_new_member_row(world: Probe) -> None:
    """A has expired and is gone; a call that creates it again has just written its rows in the group and died."""
    await expired(world)
    world.clock.advance(4 * HOUR)
    await world.services.expiration.run(60)
    await dead_create_in_a_due_group(world)


def _dates_to_the_hour(world: Probe) -> dict[str, str]:
    """Returns the dates of a task whose row in the Expiry table is in an hour that begins when it may go."""
    seconds = 7 * HOUR - world.clock.elapsed % HOUR - EXPIRY_GRACE_PERIOD.total_seconds()
    expires = format_date(world.clock.now() + timedelta(seconds=seconds))
    return {"expires": expires, "deadline": expires}


async def _to_the_end(world: Probe) -> None:
    world.clock.advance((world.tasks()[A].expires - world.clock.now()).total_seconds())
