"""Checks what must hold of artifacts: nothing acknowledged is lost, nothing is left over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from shared.queue.artifacts.rows import decode
from shared.queue.artifacts.rules import ANNOUNCED_AT_ONCE, FINISHED_LATER, Artifact, Upload
from shared.store import keys
from shared.store.expiring import is_over
from tests.promises.simulator import invariants
from tests.promises.simulator.artifact_scenarios import CONTENT, place
from tests.promises.simulator.running import TO_THE_END, Attempt
from tests.promises.simulator.situations import A
from tests.promises.simulator.world import World


def artifacts(world: World) -> dict[str, Artifact]:
    """Returns the artifacts of A's only run by their names."""
    first, end = keys.ARTIFACTS
    rows = [decode(row) for row in world.rows(keys.TASKS, A) if first <= row.key < end]
    return {artifact.name: artifact for artifact in rows}


def check(world: World, *, is_acknowledged: bool) -> None:
    """Checks that every upload of an artifact is its blob by now, or was never made, and that what is present is
    announced."""
    found = artifacts(world)
    for name, artifact in found.items():
        container, path = place(world, name)
        blob = world.account.committed(container).get(path)
        assert blob is not None or not world.account.staged(container, path), f"{name} has not been committed"
        if artifact.is_present and not is_over(artifact.expires, world.clock.now()):  # it may be about to be deleted
            assert blob is not None
            assert blob.content == CONTENT
        if artifact.upload is Upload.DIRECT and blob is not None:
            assert artifact.is_present, f"{name} is committed, and its row does not know"
    sent = {body["artifact"]["name"] for body in world.topics.of("artifact-created")}
    announced = {
        artifact.name
        for artifact in found.values()
        if artifact.storage_type in ANNOUNCED_AT_ONCE
        or (artifact.storage_type in FINISHED_LATER and artifact.is_present)
    }
    assert sent <= announced, "announced before it was there"
    if is_acknowledged:
        assert sent == announced


def check_early_expirations(world: World) -> None:
    """Checks shortly before the task expires that artifacts that expired hours ago are gone."""
    for task in world.tasks().values():
        left = task.expires - timedelta(minutes=10) - world.clock.now()
        world.run(world.clock.sleep(max(left.total_seconds(), 0)))
        world.run(world.handlers.expiration.run(600))
    # What goes with its task is tried again with it, if a process has died of that.
    latest = min([world.clock.now() - timedelta(hours=3), *(task.expires for task in world.tasks().values())])
    assert [name for name, artifact in artifacts(world).items() if artifact.expires < latest] == []


def finish(done: Attempt) -> None:
    """Lets everything come to its end: messages, deadlines, expirations."""
    world = done.world
    world.run(world.drain(60))
    invariants.check(world)
    world.run(world.drain(TO_THE_END))
    world.run(world.handlers.expiration.run(600))
    invariants.check_finished(world)
    check_to_the_end(world, is_acknowledged=done.is_acknowledged)


def check_to_the_end(world: World, *, is_acknowledged: bool, hours: Sequence[float] = (12, 2)) -> None:
    """Checks what holds once every message was handled; then lets everything expire. `hours` pass between the last runs
    of the job: a group's row in the list of groups goes by the run after the group's. Workers that came late, and then
    their pool, outlive the task."""
    check(world, is_acknowledged=is_acknowledged)
    check_early_expirations(world)
    for each in hours:
        world.run(world.clock.sleep(timedelta(hours=each).total_seconds()))
        world.run(world.handlers.expiration.run(600))
    assert not world.tasks(), "tasks that have expired"
    assert world.rows(keys.TASKS) == [], "rows of tasks that have expired"
    for container in (keys.PRIVATE, keys.PUBLIC):
        assert not world.account.committed(container), "blobs of artifacts that have expired"
    left = [(row.partition, row.key) for row in world.rows(keys.EXPIRY) if row.key != "cursor"]
    assert left == [], f"expiry rows: {left}, at {world.clock.now()}"
