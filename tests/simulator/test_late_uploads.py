"""Uploads that end late, overlap, are repeated in another way, or whose blob somebody has spoiled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from shared.domain import artifacts as rules
from shared.domain.artifacts import StorageType, Upload
from shared.domain.dates import format_date
from shared.domain.task import Resolved
from shared.errors import InputError, RequestConflict, ResourceNotFound
from shared.storage import keys
from shared.storage.artifacts import decode
from shared.storage.counting import Kind, counting
from tests.simulator import artifact_scenarios as scenes
from tests.simulator.artifact_scenarios import CONTENT, NAME, OTHER, artifact, place, relay, relay_to, relay_url
from tests.simulator.scenarios import A, running, running_without_retries
from tests.simulator.test_artifact_deletions import HOUR, content, expire_everything
from tests.simulator.world import World
from tests.twin.blobs import StoredBlob
from tests.twin.driver import Simulation
from tests.twin.gate import Call, Phase, Resent, as_process, process_name

PACKED = b"\x1f\x8b\x08 packed"


class Once:
    """When `who` first makes a request that `chosen` accepts, `meanwhile` happens, and perhaps the answer is lost."""

    def __init__(
        self, who: str, chosen: Callable[[Call], bool], phase: Phase = Phase.BEFORE, *, is_resent: bool = False
    ) -> None:
        self.who, self.chosen, self.phase, self.is_resent = who, chosen, phase, is_resent
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.was = False

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Passes everything else."""
        if self.was or self.meanwhile is None or phase is not self.phase:
            return
        if process_name() == self.who and self.chosen(call):
            self.was = True
            await as_process("other", self.meanwhile())
            if self.is_resent:
                raise Resent


def open_world(*gates: Once) -> World:
    world = World(Simulation.scripted([]), *gates)
    world.is_ordered = False
    return world


def writes_blob(call: Call) -> bool:
    return call.kind is Kind.BLOB_WRITE


def writes_artifact(call: Call) -> bool:
    return call.kind is Kind.TABLE_WRITE and call.target == keys.TASKS and any("artifact~" in key for key in call.keys)


async def create(world: World, storage_type: str = "s3", name: str = NAME, **changes: object) -> None:
    await world.services.artifacts.creation.create(A, 0, artifact(world, storage_type, name, **changes))


async def announced(world: World) -> None:
    """A's run is running; a direct URL was handed out, and nothing has come."""
    await world.create(A, retries=0, expires=format_date(world.clock.now() + timedelta(days=60)))
    await world.claim()
    await create(world, upload=Upload.DIRECT, content_length=len(CONTENT), sent_length=len(CONTENT))


async def cancel(world: World) -> None:
    await world.services.lifecycle.cancel(await world.services.lifecycle.known(A))


async def lapse(world: World) -> None:
    await world.clock.sleep(1200)


async def complete(world: World) -> None:
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def expire(world: World, hours: int) -> None:
    for _ in range(hours):
        await world.clock.sleep(HOUR)
        await world.handlers.expiration.run(300)


@pytest.mark.parametrize("minutes", [0, 1, 44, 180])
@pytest.mark.parametrize("end", [cancel, lapse, complete], ids=lambda end: end.__name__)
def test_put_that_ends_after_the_resolution_is_committed(end: Callable[[World], Awaitable[None]], minutes: int) -> None:
    """The blob is there without any reader, long before Azure drops its block after a week."""
    world = open_world()

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
    world = open_world()
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


def test_upload_of_a_retried_run_is_committed_when_the_task_is_resolved() -> None:
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=1)
        await world.drain(1300)
        assert len(world.tasks()[A].runs) == 2
        await scenes.put(world, NAME)
        await world.claim()
        await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)
        await world.drain(60)

    world.run(story())
    container, path = place(world)
    assert world.account.committed(container)[path].content == CONTENT


def test_expired_unfinished_blob_does_not_keep_its_run_from_being_completed() -> None:
    world = open_world()

    async def story() -> None:
        await world.create(A, deadline=format_date(world.clock.now() + timedelta(hours=20)))
        await world.claim()
        soon = world.clock.now() + timedelta(minutes=5)
        details = {"contentSha256": "0" * 64, "contentLength": 9}
        for name, expires in ((NAME, soon), (OTHER, soon + timedelta(hours=12))):
            await create(world, "blob", name, upload=Upload.CLIENT, content_length=9, details=details, expires=expires)
        world.clock.advance(2 * HOUR)
        await world.handlers.expiration.run(300)
        assert world.tasks()[A].runs[0].unfinished == (rules.digest(OTHER),)
        with pytest.raises(RequestConflict):
            await complete(world)
        world.clock.advance(14 * HOUR)
        await world.handlers.expiration.run(300)
        await complete(world)

    world.run(story())


def test_encoding_of_older_content_is_not_set_on_newer_content() -> None:
    """A reader looks at a first upload (packed); a second one (plain) is committed; then the reader sets headers."""
    gate = Once("reader", lambda call: writes_blob(call) and len(commits) == 1)
    commits: list[Call] = []

    async def count(call: Call, phase: Phase) -> None:
        if phase is Phase.AFTER and process_name() == "reader" and writes_blob(call):
            commits.append(call)

    world = World(Simulation.scripted([]), gate, count)
    world.is_ordered = False

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=100, sent_length=100)
        await scenes.put(world, NAME, content=PACKED)

        async def newer() -> None:
            await scenes.put(world, NAME)
            await complete(world)
            await world.drain(60)

        gate.meanwhile = newer
        await as_process("reader", scenes.read(world))
        assert gate.was
        await scenes.read(world)

    world.run(story())
    container, path = place(world)
    blob = world.memory.blobs.blobs(container)[path]
    assert (blob.content, blob.content_encoding) == (CONTENT, "")


@pytest.mark.parametrize("stated", [len(PACKED), len(PACKED) + 1, None])
def test_content_is_unpacked_only_where_its_length_is_not_the_stated_one(stated: int | None) -> None:
    """And the length that was stated stays."""
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=stated, sent_length=stated)
        await scenes.put(world, NAME, content=PACKED)
        await scenes.read(world)
        await complete(world)
        await world.drain(60)
        await scenes.read(world)
        found = await world.services.artifacts.reading.info(A, 0, NAME)
        assert found.known_length == (len(PACKED) if stated is None else stated)

    world.run(story())
    container, path = place(world)
    expected = "" if stated == len(PACKED) else "gzip"
    assert world.memory.blobs.blobs(container)[path].content_encoding == expected


def test_encoding_is_detected_by_the_length_that_was_stated_last() -> None:
    """The artifact's own length stays that of the first statement (contract 7.3)."""
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=3, sent_length=3)
        await create(world, upload=Upload.DIRECT, content_length=len(PACKED), sent_length=len(PACKED))
        await scenes.put(world, NAME, content=PACKED)
        await scenes.read(world)

    world.run(story())
    row, blob = stored(world)
    assert (row.known_length, blob.content_encoding) == (3, "")


def test_resolution_keeps_the_encoding_that_a_reader_found_out() -> None:
    """A commit without new content would take it away until the next reader."""
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=1, sent_length=1)
        await scenes.put(world, NAME, content=PACKED)
        await scenes.read(world)
        await complete(world)
        await world.drain(60)

    world.run(story())
    container, path = place(world)
    assert world.memory.blobs.blobs(container)[path].content_encoding == "gzip"


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("chosen", [writes_blob, writes_artifact])
def test_relay_uploads_that_overlap_leave_no_mixture(chosen: Callable[[Call], bool], phase: Phase) -> None:
    """What the row says for sure is true of the blob; else the next reader looks."""
    gate = Once("first", chosen, phase)
    world = open_world(gate)

    async def story() -> None:
        await scenes.relayed(world)
        gate.meanwhile = lambda: relay(world, b"plain")
        await as_process("first", relay(world, PACKED, "gzip"))
        assert gate.was

    world.run(story())
    row, blob = stored(world)
    assert not row.is_settled or (row.encoding, row.length) == (blob.content_encoding, len(blob.content))
    world.run(scenes.read(world))
    row, blob = stored(world)
    assert row.is_settled
    assert (row.encoding, row.length) == (blob.content_encoding, len(blob.content))


def stored(world: World) -> tuple[rules.Artifact, StoredBlob]:
    """The row of the artifact, and its blob."""
    (row,) = [row for row in world.rows(keys.TASKS, A) if row.key == keys.artifact(0, NAME)]
    container, path = place(world)
    return decode(row), world.memory.blobs.blobs(container)[path]


@pytest.mark.parametrize("end", [complete, cancel], ids=lambda end: end.__name__)
def test_relay_url_is_refused_once_the_content_can_no_longer_change(end: Callable[[World], Awaitable[None]]) -> None:
    """Of an exception that is some minutes later: a worker may still upload its log."""
    world = open_world()

    async def story() -> None:
        await running_without_retries(world)
        await create(world, upload=Upload.RELAY)
        url = relay_url(world)
        await relay_to(world.services, url)
        await end(world)
        if end is cancel:
            await relay_to(world.services, url)
            await world.clock.sleep(rules.AFTER_EXCEPTION.total_seconds())
        with pytest.raises(RequestConflict):
            await relay_to(world.services, url, b"later")

    world.run(story())
    assert content(world) == CONTENT


def test_older_direct_put_does_not_replace_a_newer_relay_upload() -> None:
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=3, sent_length=3)
        direct = place(world)
        await create(world, upload=Upload.RELAY)
        await relay(world, b"newer")
        await world.account.connect().blobs.put_block(*direct, "artifact", b"old")
        await complete(world)
        await world.drain(60)
        assert not [row.key for row in world.rows(keys.TASKS, A) if row.key.startswith("direct~")]

    world.run(story())
    assert content(world) == b"newer"


def test_older_relay_url_is_refused_where_the_content_comes_directly_by_now() -> None:
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.RELAY)
        url = relay_url(world)
        await relay_to(world.services, url, b"older")
        await scenes.direct(world, NAME)
        with pytest.raises(RequestConflict):
            await relay_to(world.services, url, b"older")

    world.run(story())
    assert content(world) == CONTENT
    assert len(world.account.committed(keys.PUBLIC)) == 1, "the content that was replaced is gone"


def test_repeated_creation_keeps_what_was_relayed_until_it_is_replaced() -> None:
    world = open_world()

    async def story() -> None:
        await scenes.relayed(world)
        await relay(world)
        await create(world, upload=Upload.RELAY)

    world.run(story())
    assert content(world) == CONTENT


def test_block_of_an_expired_artifact_is_not_the_content_of_the_next_of_its_name() -> None:
    world = open_world()

    async def story() -> None:
        await world.create(A, deadline=format_date(world.clock.now() + timedelta(hours=20)))
        await world.claim()
        await scenes.direct(world, NAME, expires=world.clock.now() + timedelta(minutes=5))
        world.clock.advance(2 * HOUR)
        await world.handlers.expiration.run(300)
        await create(world, upload=Upload.DIRECT, content_length=5, sent_length=5)
        with pytest.raises(ResourceNotFound):
            await scenes.read(world)

    world.run(story())


@pytest.mark.parametrize("storage_type", ["s3", "blob", "reference"])
@pytest.mark.parametrize("is_repeated", [False, True], ids=["new", "repeated"])
def test_creation_whose_answer_was_lost_knows_its_own_write(storage_type: str, is_repeated: bool) -> None:
    """Storage gets it twice, and the run is resolved in between: it is no conflict, and it will expire in time."""
    writes: list[Call] = []
    first = 2 if is_repeated and storage_type != "blob" else 1  # the first write finds that the artifact is there

    def effective(call: Call) -> bool:
        if writes_artifact(call):
            writes.append(call)
        return writes_artifact(call) and len(writes) == first

    gate = Once("caller", effective, Phase.AFTER, is_resent=True)
    world = open_world(gate)

    async def story() -> None:
        await world.create(A, expires=format_date(world.clock.now() + timedelta(days=300)))
        await world.claim()
        of_type: dict[str, dict[str, Any]] = {
            "s3": {"upload": Upload.RELAY},
            "blob": {"upload": Upload.CLIENT, "details": {"contentSha256": "0", "contentLength": 1}},
            "reference": {"details": {"url": "https://example.com"}},
        }
        wanted = artifact(world, storage_type, **of_type[storage_type], expires=world.clock.now() + timedelta(hours=5))
        if is_repeated:
            await world.process().artifacts.creation.create(A, 0, wanted)
        gate.meanwhile = lambda: world.services.lifecycle.report(A, 0, Resolved.FAILED)
        created = await as_process("caller", world.services.artifacts.creation.create(A, 0, wanted))
        assert gate.was
        assert created.artifact.storage_type is StorageType(storage_type)
        await world.drain(60)
        await expire(world, 24)
        assert [row.key for row in world.rows(keys.TASKS, A) if row.key.startswith("artifact~")] == []

    world.run(story())


def test_refused_creation_leaves_no_expiration() -> None:
    world = open_world()

    async def story() -> None:
        await running(world)
        await complete(world)
        with pytest.raises(RequestConflict):
            await create(world, upload=Upload.RELAY, expires=world.clock.now() + timedelta(hours=5))
        assert not [row.key for row in world.rows(keys.EXPIRY) if row.key.startswith("artifact~")]

    world.run(story())


def test_object_that_lands_after_its_upload_was_finished_changes_nothing() -> None:
    gate = Once("slow", writes_blob)
    world = open_world(gate)
    name = f"t/{A}/0/{NAME}"

    async def story() -> None:
        await running(world)
        await create(world, "object", upload=Upload.CLIENT, details={"uploadId": A})
        objects = world.services.artifacts.objects

        async def finished() -> None:
            await objects.put_inline(await objects.known(name), CONTENT, {})
            await objects.finish(await objects.known(name), {})
            await world.services.artifacts.finishing.finish(A, 0, NAME, A)

        gate.meanwhile = finished
        with pytest.raises(RequestConflict):
            await as_process("slow", objects.put_inline(await objects.known(name), b"slow", {}))

    world.run(story())
    assert content(world) == CONTENT
    assert len(world.account.committed(keys.PUBLIC)) == 1
    expire_everything(world)


def test_object_in_chunks_comes_through_the_service_as_far_as_that_takes_it() -> None:
    world = open_world()
    name = f"t/{A}/0/{NAME}"

    async def story() -> None:
        await running(world)
        await create(world, "object", upload=Upload.CLIENT, details={"uploadId": A})
        objects = world.services.artifacts.objects
        limit = world.services.artifacts.relay.limit
        known = await objects.known(name)
        assert (await objects.put_url(known, limit + 1, is_chunked=False)).url.startswith("https://memory")
        with pytest.raises(InputError, match="chunks"):
            await objects.put_url(known, limit + 1, is_chunked=True)
        put = await objects.put_url(known, limit, is_chunked=True)
        assert put.url.startswith("https://tc.example.com/artifacts/relay/")
        await relay_to(world.services, put.url)
        await objects.finish(await objects.known(name), {})
        with pytest.raises(RequestConflict):
            await relay_to(world.services, (await url_now()), b"later")
        await world.services.artifacts.finishing.finish(A, 0, NAME, A)

    async def url_now() -> str:
        return relay_url(world)

    world.run(story())
    assert content(world) == CONTENT
    expire_everything(world)


@pytest.mark.parametrize("when", ["before the upload", "after the commit"])
def test_another_type_of_blob_is_no_upload_and_fails_nothing(when: str) -> None:
    """The holder of the URL puts an append blob in the place: no handler fails, and everything expires."""
    world = open_world()

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.DIRECT, content_length=1, sent_length=1)
        if when == "after the commit":
            await scenes.put(world, NAME)
            await scenes.read(world)
        world.memory.blobs.put_foreign(*place(world), b"appended")
        await complete(world)
        for body, _ in world.messages("resolved"):
            await world.resolved_due_here(body)
        await world.drain(60)
        assert world.tasks()[A].is_resolved

    world.run(story())
    expire_everything(world)


def test_task_cannot_have_artifacts_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process counts now and then; what exists may be created again."""
    monkeypatch.setattr(rules, "MAX_OF_TASK", 20)
    monkeypatch.setattr("shared.storage.artifacts.MAX_OF_TASK", 20)
    monkeypatch.setattr(rules, "COUNTED_EVERY", 5)
    world = open_world()

    async def fill(world: World) -> int:
        made = 0
        for number in range(100):
            try:
                await create(world, name=f"{world.slugid()}/{number}", upload=Upload.RELAY)
            except RequestConflict:
                break
            made += 1
        return made

    async def story() -> None:
        await running(world)
        await create(world, upload=Upload.RELAY)
        assert await fill(world) == 19
        with pytest.raises(RequestConflict, match="20 artifacts"):
            await create(world, name="one more", upload=Upload.RELAY)
        await create(world, upload=Upload.RELAY)
        world.services = world.process()
        assert await fill(world) == 5, "as many as a process creates before it counts"

    world.run(story())


def test_uploads_of_a_resolution_side_by_side_with_their_readers() -> None:
    """Two readers and the handler commit the same upload."""
    world = open_world()

    async def story() -> None:
        await running(world)
        await scenes.direct(world, NAME)
        await complete(world)
        (body,) = [body for body, _ in world.messages("resolved")]
        await asyncio.gather(scenes.read(world), scenes.read(world), world.resolved_due_here(body))

    world.run(story())
    assert content(world) == CONTENT


def test_data_of_an_object_that_is_sent_again_replaces_the_older_data() -> None:
    world = open_world()

    async def story() -> None:
        await scenes.object_begun(world)
        await scenes.put_object(world)

    world.run(story())
    assert len(world.account.committed(keys.PUBLIC)) == 1


def test_direct_upload_that_was_given_up_for_another_way_is_not_waited_for() -> None:
    world = open_world()

    async def story() -> None:
        await announced(world)
        await create(world, upload=Upload.RELAY)
        await complete(world)
        await world.drain(60)

    world.run(story())
    assert not [row.key for row in world.rows(keys.TASKS, A) if row.key.startswith("direct~")]
    assert not [row.key for row in world.rows(keys.EXPIRY) if row.key.startswith("upload~")]


def test_upload_url_of_an_artifact_that_expires_soon_ends_before_it_is_deleted() -> None:
    world = open_world()

    async def story() -> None:
        await running(world)
        expires = world.clock.now() + timedelta(minutes=2)
        wanted = artifact(world, "s3", upload=Upload.RELAY, expires=expires)
        created = await world.services.artifacts.creation.create(A, 0, wanted)
        assert created.upload_until <= expires + timedelta(minutes=30)

    world.run(story())


def test_repeated_creations_are_not_counted() -> None:
    """A log that is uploaded every minute costs no count of artifacts."""
    world = open_world()

    async def story() -> None:
        await running(world)
        for _ in range(3 * rules.COUNTED_EVERY):
            await create(world, upload=Upload.RELAY)
        with counting() as operations:
            await create(world, upload=Upload.RELAY)
        assert operations.total == 3

    world.run(story())


def test_artifacts_of_a_task_are_counted_once_so_many_are_new() -> None:
    """An ordinary task pays for no count; one with many pays for one now and then."""
    world = open_world()
    reads: list[int] = []

    async def story() -> None:
        await running(world)
        for number in range(2 * rules.COUNTED_EVERY + 2):
            with counting() as operations:
                await create(world, name=f"public/{number}", upload=Upload.RELAY)
            reads.append(operations.counts[Kind.TABLE_READ])

    world.run(story())
    counted = [number for number, each in enumerate(reads) if number and each > min(reads)]
    assert counted == [rules.COUNTED_EVERY, 2 * rules.COUNTED_EVERY]
