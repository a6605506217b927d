"""Calls on artifacts against what ends or deletes them: between any two requests of a call the other one happens.

Whatever the order: a call returns what the contract says, what it has acknowledged can be read for as long as the
artifact lives, and once everything has expired nothing is left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from shared.base.dates import format_date
from shared.base.errors import ApiError
from shared.queue.artifacts.rules import Upload, part_id
from shared.queue.tasks.internal_messages import RESOLVED_QUEUE
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import Call, Phase, as_process, process_name
from tests.promises.simulator import artifact_scenarios as scenes
from tests.promises.simulator.artifact_scenarios import CONTENT, NAME, artifact, place, relay_to, relay_url
from tests.promises.simulator.situations import A, Step
from tests.promises.simulator.world import World, unordered

HOUR = 3600.0
Act = Callable[[World], Awaitable[object]]
OBJECT = f"t/{A}/0/{NAME}"


class Between:
    """A gate that lets another action happen as a whole before or after the caller's request of that number."""

    def __init__(self, number: int, phase: Phase) -> None:
        self.number, self.phase = number, phase
        self.calls = 0
        self.other: Callable[[], Awaitable[object]] | None = None
        self.is_over = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Counts the caller's requests, and lets the other action run to its end."""
        if self.other is None or process_name() != "caller" or phase is not self.phase:
            return
        self.calls += 1
        if self.calls == self.number:
            self.is_over = True
            await as_process("other", self.other())


@dataclass(frozen=True)
class Meeting:
    """A call, the situation before it, and whether it acknowledges content."""

    prepare: Step
    act: Act
    brings_content: bool = False


def early(world: World) -> dict[str, Any]:
    """Returns an artifact that expires long before its task."""
    return {"expires": world.clock.now() + timedelta(minutes=5)}


async def runs(world: World) -> None:
    """A is running, and has no retries left."""
    await world.create(A, retries=0, expires=format_date(world.clock.now() + timedelta(days=2)))
    await world.claim()


async def with_direct(world: World) -> None:
    """A URL for a direct upload was handed out, and content was put there."""
    await runs(world)
    await scenes.direct(world, NAME, **early(world))


async def with_relay(world: World) -> None:
    """A relay URL was handed out."""
    await runs(world)
    wanted = artifact(world, "s3", upload=Upload.RELAY, **early(world))
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)


async def with_blob(world: World) -> None:
    """The content of a `blob` is there, and not reported."""
    await runs(world)
    details = {"contentSha256": "0" * 64, "contentLength": len(CONTENT)}
    wanted = artifact(world, "blob", upload=Upload.CLIENT, content_length=len(CONTENT), details=details, **early(world))
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)
    await scenes.upload_blob(world)


async def with_parts(world: World) -> None:
    """Both parts of a `blob` are there, and not reported."""
    await runs(world)
    details = {"contentSha256": "0" * 64, "contentLength": len(CONTENT), "partCount": 2, "partsHash": "0"}
    wanted = artifact(world, "blob", upload=Upload.CLIENT, content_length=len(CONTENT), details=details, **early(world))
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)
    for number, part in enumerate((CONTENT[:5], CONTENT[5:])):
        await world.account.connect().blobs.put_block(*place(world), part_id(number), part)


async def complete_parts(world: World) -> None:
    await world.services.artifacts.creation.complete(A, 0, NAME, ["", ""])


async def with_upload_to_commit(world: World) -> None:
    """The run is completed, its upload is there, and the message about the resolution waits."""
    await with_direct(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def handle_resolved(world: World) -> None:
    for body, _ in world.messages(RESOLVED_QUEUE):
        await world.resolved_due_here(body)


async def with_object(world: World) -> None:
    """An `object` exists whose upload has begun."""
    await runs(world)
    wanted = artifact(world, "object", upload=Upload.CLIENT, details={"uploadId": A}, **early(world))
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)


async def create_direct(world: World) -> None:
    await scenes.direct(world, NAME, **early(world))


async def create_relayed(world: World) -> None:
    """Creates an artifact with a relayed upload, in place of a direct one if that is there."""
    wanted = artifact(world, "s3", upload=Upload.RELAY, expires=artifact(world, "s3").expires)
    await world.services.artifacts.creation.create_or_find(A, 0, wanted)


async def put_to_relay(world: World) -> None:
    await relay_to(world.services, relay_url(world))


async def read(world: World) -> None:
    async def everybody(names: object) -> None:
        assert names

    stored = await world.services.artifacts.reading.find(A, 0, NAME, everybody)
    await world.services.artifacts.reading.url(stored)


async def complete(world: World) -> None:
    container, path = place(world)
    etag = world.account.committed(container)[path].etag
    await world.services.artifacts.creation.complete(A, 0, NAME, [etag])


async def put_inline(world: World) -> None:
    objects = world.services.artifacts.objects
    await objects.put_inline(await objects.existing(OBJECT), CONTENT, {})


async def finish_upload(world: World) -> None:
    objects = world.services.artifacts.objects
    await objects.put_inline(await objects.existing(OBJECT), CONTENT, {})
    await objects.finish(await objects.existing(OBJECT), {})
    await world.services.artifacts.creation.finish(A, 0, NAME, A)


async def completed(world: World) -> None:
    """The run is completed, and the message about it handled."""
    await world.process().lifecycle.report(A, 0, Resolved.FAILED)
    await world.drain(30)


async def canceled(world: World) -> None:
    """The task is cancelled, and the message about it handled."""
    services = world.process()
    await services.lifecycle.cancel(await services.lifecycle.existing(A))
    await world.drain(30)


async def artifact_expired(world: World) -> None:
    """Lets the artifact expire, but not the task."""
    await world.clock.sleep(2 * HOUR)
    await world.handlers.expiration.run(600)


async def task_expired(world: World) -> None:
    """Lets everything expire."""
    await world.drain(6 * HOUR)
    for _ in range(14):
        await world.clock.sleep(4 * HOUR)
        await world.handlers.expiration.run(600)


async def created_again(world: World) -> None:
    """Lets the artifact expire, and creates it again with other content."""
    await artifact_expired(world)
    wanted = artifact(world, "s3", upload=Upload.DIRECT, content_length=5, sent_length=5)
    await world.process().artifacts.creation.create_or_find(A, 0, wanted)
    await scenes.put(world, NAME, content=b"other")


MEETINGS = {
    "create": Meeting(runs, create_direct, brings_content=True),
    "create in another way": Meeting(with_direct, create_relayed),
    "read": Meeting(with_direct, read, brings_content=True),
    "put to relay": Meeting(with_relay, put_to_relay, brings_content=True),
    "complete": Meeting(with_blob, complete, brings_content=True),
    "complete parts": Meeting(with_parts, complete_parts, brings_content=True),
    "handle the resolution": Meeting(with_upload_to_commit, handle_resolved, brings_content=True),
    "put inline": Meeting(with_object, put_inline),
    "finish upload": Meeting(with_object, finish_upload, brings_content=True),
}
ENDS: list[Act] = [completed, canceled, artifact_expired, task_expired]


def content(world: World, name: str = NAME) -> bytes | None:
    """Returns what a reader gets of an artifact that has not expired; None if there is none."""
    found: list[bytes | None] = []

    async def everybody(names: object) -> None:
        assert names

    async def story() -> None:
        reading = world.process().artifacts.reading
        try:
            stored = await reading.find(A, 0, name, everybody)
            await reading.url(stored)
        except ApiError:
            found.append(None)
        else:
            found.append(world.account.committed(stored.container)[stored.path].content)

    world.run(story())
    return found[0]


def scheduled(world: World) -> list[str]:
    """Returns what the job has yet to do."""
    return [row.key for row in world.rows(keys.EXPIRY) if row.key != "cursor"]


def expire_everything(world: World) -> None:
    """Lets days pass, after which nothing is left but what the job itself remembers."""

    async def story() -> None:
        await world.drain(6 * HOUR)
        for _ in range(24):
            await world.handlers.expiration.run(300)
            if not scheduled(world):
                break  # nothing will bring the job back
            await world.clock.sleep(4 * HOUR)

    world.run(story())
    assert world.rows(keys.TASKS) == []
    for container in (keys.PRIVATE, keys.PUBLIC):
        assert not world.account.committed(container), "content that will never be deleted"
    assert scheduled(world) == []


# A request of a creation cannot last until what it creates has expired: calls end after some minutes.
PAIRS = [
    (name, end)
    for name in MEETINGS
    for end in ENDS
    if (name != "create" or end in {completed, canceled}) and (name != "handle the resolution" or end is not completed)
]


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize(("name", "end"), PAIRS, ids=[f"{name}, {end.__name__}" for name, end in PAIRS])
def test_call_meets_an_end_between_any_two_of_its_requests(name: str, end: Act, phase: Phase) -> None:
    meeting = MEETINGS[name]
    for number in range(1, 30):
        between = Between(number, phase)
        world = unordered(between)
        world.run(meeting.prepare(world))
        between.other = lambda world=world: end(world)
        started = world.clock.now()
        (outcome,) = world.simulation.outcomes(as_process("caller", meeting.act(world)))
        if not between.is_over:
            assert number > 1, "the call makes requests"
            break
        # A test's own look at a row that is gone fails as well.
        assert outcome is None or isinstance(outcome, ApiError | StorageUnavailable | ValueError), repr(outcome)
        lives = world.clock.now() < started + timedelta(minutes=5)
        if outcome is None and meeting.brings_content and lives:
            assert content(world) == CONTENT, f"acknowledged, and lost: {end.__name__} at request {number}"
        expire_everything(world)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("name", ["read", "put to relay"])
def test_call_on_an_expired_artifact_leaves_the_next_one_of_its_name_alone(name: str, phase: Phase) -> None:
    """A reader or an upload that is slower than the expiration of its artifact leaves a new one of that name alone."""
    meeting = MEETINGS[name]
    for number in range(1, 30):
        between = Between(number, phase)
        world = unordered(between)
        world.run(meeting.prepare(world))
        between.other = lambda world=world: created_again(world)
        (outcome,) = world.simulation.outcomes(as_process("caller", meeting.act(world)))
        if not between.is_over:
            break
        assert content(world) == b"other", f"at request {number}: {outcome!r}"
        expire_everything(world)


@pytest.mark.parametrize("kind", ["direct", "relay"])
def test_deletion_meets_a_creation_between_any_two_of_its_requests(kind: str) -> None:
    """An artifact that is created again while the job deletes the expired one keeps its new content."""
    prepare = with_direct if kind == "direct" else with_relay
    for number in range(1, 30):
        between = Between(number, Phase.BEFORE)
        world = unordered(between)
        world.run(prepare(world))
        if kind == "relay":
            world.run(put_to_relay(world))
        world.run(world.clock.sleep(2 * HOUR))

        async def again(world: World = world) -> None:
            services = world.process()
            wanted = artifact(world, "s3", upload=Upload.RELAY)
            await services.artifacts.creation.create_or_find(A, 0, wanted)
            await scenes.relay(world, b"new", services=services)

        between.other = again
        world.run(as_process("caller", world.process().expiration.run(300)))
        if not between.is_over:
            break
        assert content(world) == b"new", f"at request {number}"
        expire_everything(world)
