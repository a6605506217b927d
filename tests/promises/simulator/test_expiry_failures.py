"""Something that can never be deleted holds up nothing else, and goes soon after it can be deleted at last."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from shared.auth.clients.rows import TABLE as CLIENTS
from shared.base.dates import format_date
from shared.base.protocol import EXPIRY_GRACE_PERIOD
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.expiry.job import STUCK_AFTER
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind
from shared.store.expiring import FIRST_RETRY, LAST_RETRY, ExpiryStore
from shared.store.interface import StorageUnavailable, Upsert
from shared.telemetry.instruments import EXPIRATIONS_FAILED
from tests.parts.twin import MemoryStorage
from tests.parts.twin.clock import VirtualClock
from tests.parts.twin.gate import Call, Phase, process_name
from tests.promises.simulator import artifact_scenarios
from tests.promises.simulator.expiring import DAY, EARLY, HOUR, JOB, LATE, everything, expire, left, scheduled
from tests.promises.simulator.situations import GROUP, A, B
from tests.promises.simulator.world import World, unordered

Chosen = Callable[[Call], bool]


def writes(target: str, key: str = "", subject: str = "") -> Chosen:
    """Chooses writes to a table or container: to the given row, in the given partition or below the given path."""

    def chosen(call: Call) -> bool:
        return (
            call.kind in {Kind.TABLE_WRITE, Kind.BLOB_WRITE}
            and call.target == target
            and call.subject.startswith(subject)
            and (not key or any(each.startswith(key) for each in call.keys))
        )

    return chosen


UNDELETABLE: dict[str, tuple[Chosen, set[str]]] = {
    "task": (writes(keys.TASKS, keys.TASK_STATUS, A), {f"task {A}"}),
    "group": (writes(keys.GROUPS, keys.GROUP, GROUP), {f"group {GROUP}", "listed group"}),
    "member": (writes(keys.GROUPS, keys.member(A), GROUP), {f"group {GROUP}", "listed group"}),
    "task with a large definition": (writes(keys.TASKS, keys.TASK_STATUS, B), {f"task {B}"}),
    "worker": (writes(keys.POOLS, "worker~"), {"worker"}),
    "pool": (writes(keys.DIRECTORY, subject=keys.POOL), {"listed pool"}),
    "provisioner": (writes(keys.DIRECTORY, subject=keys.PROVISIONER), {"listed provisioner"}),
    "client": (writes(CLIENTS), {"client project~ci"}),
    "artifact": (writes(keys.PUBLIC, subject=keys.path(A, 0, EARLY)), {f"content of {A}", f"task {A}"}),
    "upload": (writes(keys.PUBLIC, subject=keys.path(A, 0, LATE)), {f"task {A}"}),
}
"""For each kind of item, what the storage refuses to the job, and what may be left because of it."""


class Refusing:
    """A gate that refuses some requests of the job for as long as it `is_on`."""

    def __init__(self, chosen: Chosen, error: Callable[[], Exception] = StorageUnavailable) -> None:
        self._chosen = chosen
        self._error = error
        self.is_on = True
        self.refused = 0

    async def __call__(self, call: Call, phase: Phase) -> None:
        if self.is_on and phase is Phase.BEFORE and process_name() == JOB and self._chosen(call):
            self.refused += 1
            raise self._error()


async def others(world: World) -> None:
    """Creates a task every twelve hours, which expires."""
    for number in range(6):
        expires = world.clock.now() + timedelta(hours=4 + 12 * number)
        await world.create(expires=format_date(expires))
        (claim,) = await world.claim()
        await world.services.lifecycle.report(claim.task.task_id, 0, Resolved.COMPLETED)
    await world.drain(60)


@pytest.mark.parametrize("error", [StorageUnavailable, RuntimeError], ids=["unavailable", "defect"])
@pytest.mark.parametrize("what", UNDELETABLE)
def test_undeletable_thing_holds_up_nothing_else(what: str, error: type[Exception]) -> None:
    chosen, may_stay = UNDELETABLE[what]
    gate = Refusing(chosen, error)
    world = unordered(gate)
    world.run(everything(world))
    world.run(others(world))
    world.run(world.drain(4 * HOUR))
    # The worker of the last task is seen for a day, and the job comes two hours after an hour is over.
    world.run(expire(world, 24 * 8))
    assert gate.refused >= STUCK_AFTER, "nothing was undeletable"
    assert left(world) <= may_stay
    assert gate.refused <= 24 * 8, "tried more often than hourly"
    gate.is_on = False
    world.run(expire(world, LAST_RETRY.total_seconds() / HOUR + 4))
    assert left(world) == set()
    assert scheduled(world) == set()


def test_what_fails_again_and_again_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    chosen, _ = UNDELETABLE["task"]
    world = unordered(Refusing(chosen))
    world.run(everything(world))
    world.run(world.drain(8 * HOUR))
    with caplog.at_level(logging.WARNING, "taskcluster.expiration"):
        world.run(expire(world, 24 * 3))
    counted = world.handlers.runtime.meter.values_of(EXPIRATIONS_FAILED)
    assert counted[("task", "no")] == STUCK_AFTER - 1
    assert counted[("task", "yes")] >= 1
    stuck = [record for record in caplog.records if getattr(record, "action", "") == "expiration_stuck"]
    assert len(stuck) == counted[("task", "yes")]
    assert all(record.levelno == logging.ERROR and A in record.getMessage() for record in stuck)
    assert [record.__dict__["failures"] for record in stuck] == list(range(STUCK_AFTER, STUCK_AFTER + len(stuck)))


def test_back_off_doubles_up_to_a_day_and_starts_anew_after_a_success() -> None:
    chosen, _ = UNDELETABLE["task"]
    gate = Refusing(chosen)
    world = unordered(gate)
    world.run(everything(world))
    world.run(world.drain(8 * HOUR))
    tries: list[float] = []
    for _ in range(24 * 5):
        before = gate.refused
        world.run(expire(world, 1))
        if gate.refused > before:
            tries.append(world.clock.elapsed / HOUR)
    waits = [later - earlier for earlier, later in pairwise(tries)]
    # The job looks at an hour ten minutes after it is over, so that a wait may be an hour longer.
    for wait, delay in zip(waits, [1, 2, 4, 8, 16, 24, 24], strict=False):
        assert delay <= wait <= delay + 2
    assert len(waits) >= 6


def test_one_undeletable_artifact_keeps_its_task_readable_and_nothing_else() -> None:
    path = keys.path(B, 0, "public/13")
    gate = Refusing(writes(keys.PUBLIC, subject=path))
    world = unordered(gate)

    async def story() -> None:
        await world.create(B, taskGroupId=GROUP, payload={"many": 1})
        (claim,) = await world.claim()
        definition = await world.services.stores.tasks.definition(B)
        assert definition is not None
        for number in range(30):
            name = f"public/{number}"
            wanted = Artifact(
                name=name,
                storage_type=StorageType.S3,
                content_type="text/plain",
                expires=definition.expires,
                upload=Upload.RELAY,
            )
            await world.services.artifacts.creation.create_or_find(B, 0, wanted)
            await artifact_scenarios.relay(world, b"x", task_id=B, name=name)
        await world.services.lifecycle.report(B, claim.run_id, Resolved.COMPLETED)
        await world.drain(2 * DAY + 3 * HOUR)
        await expire(world, 2)
        (left_over,) = world.account.committed(keys.PUBLIC)
        assert left_over.startswith(path)
        rows = [row.key for row in world.rows(keys.TASKS, B)]
        assert [key for key in rows if key.startswith("artifact~")] == [keys.artifact(0, "public/13")]
        assert (await world.process().lifecycle.definition(B))["payload"] == {"many": 1}
        gate.is_on = False
        await expire(world, 6)

    world.run(story())
    assert left(world) <= {"worker", "listed pool", "listed provisioner"}


async def test_failures_in_a_row_are_counted_and_a_later_expiration_ends_the_row() -> None:
    clock = VirtualClock()
    clock.advance(40 * 60)  # late in an hour, so that half an hour more leads to another one
    memory = MemoryStorage(clock)
    expiry, now = ExpiryStore(memory.storage, clock.now), clock.now()
    await expiry.group(GROUP, now)
    (due,) = await expiry.due(keys.hour(now + EXPIRY_GRACE_PERIOD))
    assert (due.failures, await expiry.retry_later(due)) == (0, 1)
    (again,) = await expiry.due(keys.hour(now + FIRST_RETRY))
    assert (again.failures, again.words, dict(again.values)) == (1, due.words, dict(due.values))
    later = now + timedelta(days=2)
    await expiry.reschedule(again, later)
    (rescheduled,) = await expiry.due(keys.hour(later + EXPIRY_GRACE_PERIOD))
    assert rescheduled.failures == 0


UNREADABLE = {
    "of an unknown kind": Upsert("sprocket~a", {}),
    "without its values": Upsert("worker~a~b~c~d", {}),
    "without its words": Upsert("artifact~", {"name": "x"}),
    "with a date that is none": Upsert(f"upload~{A}~0000x~y", {"name": "x"}),
}


@pytest.mark.parametrize("row", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_row_of_the_job_holds_up_nothing(row: Upsert) -> None:
    world = unordered(Refusing(lambda call: False))

    async def story() -> None:
        await everything(world)
        hour = keys.hour(world.clock.now() + timedelta(hours=1))
        await world.memory.storage.tables.transact(keys.EXPIRY, hour, [row])
        await world.drain(8 * HOUR)
        await expire(world, 24 * 3)

    world.run(story())
    assert left(world) == set()
    stays = [each.key for each in world.rows(keys.EXPIRY) if not each.key.startswith(("cursor", keys.AUDIT_SWEEP))]
    assert stays == [row.key], "a person may look"
    kind = row.key.partition("~")[0]
    counted = {label for label, _ in world.handlers.runtime.meter.values_of(EXPIRATIONS_FAILED)}
    assert counted == {"unknown" if kind == "sprocket" else kind}, "names of no kind would be values without an end"
