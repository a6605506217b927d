"""Uploads that end late or never, or whose blob somebody has spoiled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from shared.base.dates import format_date
from shared.base.errors import RequestConflict, ResourceNotFound
from shared.queue.artifacts import rules
from shared.queue.artifacts.rules import Upload
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.counting import Kind, counting
from tests.parts.twin.gate import Call, Killed, Phase, as_process, process_name
from tests.promises.simulator import artifact_scenarios as scenes
from tests.promises.simulator.artifact_scenarios import CONTENT, NAME, artifact, place, relay_to, relay_url
from tests.promises.simulator.situations import A, running, running_without_retries
from tests.promises.simulator.test_artifact_deletions import HOUR, content, expire_everything
from tests.promises.simulator.uploading import (
    Once,
    announced,
    cancel,
    complete,
    create,
    expire,
    lapse,
    writes_artifact,
    writes_blob,
)
from tests.promises.simulator.world import World, unordered


@pytest.mark.parametrize("minutes", [0, 1, 44, 180])
@pytest.mark.parametrize("end", [cancel, lapse, complete], ids=lambda end: end.__name__)
def test_put_that_ends_after_the_resolution_is_committed(end: Callable[[World], Awaitable[None]], minutes: int) -> None:
    """A PUT that ends after the resolution is committed without a reader, before Azure drops its block."""
    world = unordered()

    async def story() -> None:
        await announced(world)
        await end(world)
        await world.drain(60)
        assert world.tasks()[A].is_resolved
        await world.clock.sleep(minutes * 60)
        await scenes.put(world, NAME)
        await expire(world, 24)

    world.run(story())
    container, path = place(world)
    assert not world.account.staged(container, path)
    assert world.account.committed(container)[path].content == CONTENT
    assert content(world) == CONTENT


def test_upload_that_never_comes_is_given_up() -> None:
    world = unordered()
    looks: list[int] = []

    async def story() -> None:
        await announced(world)
        await cancel(world)
        await world.drain(60)
        for _ in range(24):
            await expire(world, 1)
            looks.append(len([row for row in world.rows(keys.EXPIRY) if row.key.startswith("upload~")]))

    world.run(story())
    assert 1 in looks
    assert looks[-8:] == [0] * 8
    assert not [row.key for row in world.rows(keys.TASKS, A) if row.key.startswith("direct~")]


@pytest.mark.parametrize("before", ["the PUT", "the row"])
@pytest.mark.parametrize("end", [complete, cancel], ids=lambda end: end.__name__)
def test_first_content_that_comes_after_the_end_is_refused_and_never_shown(
    end: Callable[[World], Awaitable[None]], before: str
) -> None:
    """The first content that comes after the end is refused and never shown: the blob is put without a look at the
    task, but its row is written only if the run is running."""
    gate = Once("slow", writes_blob if before == "the PUT" else writes_artifact)
    world = unordered(gate)

    async def story() -> None:
        await running_without_retries(world)
        await create(world, upload=Upload.RELAY)
        url = relay_url(world)

        async def over() -> None:
            await end(world)
            await world.clock.sleep(rules.AFTER_EXCEPTION.total_seconds())

        gate.meanwhile = over
        with pytest.raises(RequestConflict):
            await as_process("slow", relay_to(world.services, url))
        assert gate.was
        with pytest.raises(ResourceNotFound):
            await scenes.read(world)
        with pytest.raises(RequestConflict):
            await relay_to(world.services, url)

    world.run(story())
    expire_everything(world)


def test_what_a_process_remembers_of_a_row_serves_one_put_and_only_while_the_row_is_the_same() -> None:
    world = unordered()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.RELAY)
        url = relay_url(world)
        await create(world, upload=Upload.RELAY)
        for reads in (3, 2):  # the first one looks whether its blob is to be removed
            with counting() as operations:
                await relay_to(world.services, url, b"older" if reads == 3 else CONTENT)
            assert operations.counts[Kind.TABLE_READ] == reads

    world.run(story())
    assert content(world) == CONTENT


async def dies_of_it(call: Call, phase: Phase) -> None:
    """Kills the first run of the expiry job that deletes a task's rows, right after that."""
    is_deletion = call.kind is Kind.TABLE_WRITE and call.target == keys.TASKS and keys.TASK_STATUS in call.keys
    if is_deletion and phase is Phase.AFTER and process_name() == "job":
        raise Killed


@pytest.mark.parametrize(
    ("is_used_again", "is_gone", "dies"),
    [(False, False, False), (False, True, False), (True, False, False), (True, True, False), (False, False, True)],
)
def test_upload_that_ends_after_its_task_is_deleted_leaves_no_blob(
    is_used_again: bool, is_gone: bool, dies: bool
) -> None:
    """An upload that ends after its task is deleted, having begun while its URL was valid, leaves no blob. A new task
    of that id keeps its own content. The artifact may have expired before its task."""
    world = unordered(*([dies_of_it] if dies else []))

    async def story() -> None:
        expires = world.clock.now() + timedelta(minutes=65)
        end = format_date(expires)
        await world.create(A, retries=0, deadline=end, expires=end)
        await world.clock.sleep(55 * 60)
        assert await world.claim()
        gone = expires - timedelta(minutes=8 if is_gone else 0)
        wanted = artifact(world, "azure", NAME, expires=gone, upload=Upload.CLIENT)
        created = await world.services.artifacts.creation.create_or_find(A, 0, wanted)
        await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
        for _ in range(18):
            await world.drain(1)
            await world.clock.sleep(600)
            with suppress(Killed):
                await as_process("job", world.handlers.expiration.run(300))
        assert not world.rows(keys.TASKS, A)
        if is_used_again:
            await world.create(A, expires=format_date(world.clock.now() + timedelta(hours=20)))
            assert await world.claim()
        late = keys.path(A, 0, NAME, created.stored.artifact.version)
        blobs = world.memory.connect().blobs
        await blobs.upload(keys.container(NAME), late, CONTENT, content_type="text/plain")
        for hour in range(48):
            await world.drain(1)
            await world.clock.sleep(HOUR)
            await world.handlers.expiration.run(300)
            assert late in world.account.committed(keys.container(NAME)) or hour > (18 if is_used_again else 2)

    world.run(story())
    assert not world.account.committed(keys.container(NAME))
