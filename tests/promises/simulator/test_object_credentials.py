"""Credentials for the data of `object` artifacts: for one object, one purpose and a time (contract 7.2, 7.6)."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.auth.certificates import epoch_milliseconds
from shared.queue.artifacts.rules import Upload
from tests.promises.simulator.artifact_scenarios import NAME, artifact
from tests.promises.simulator.situations import A, running
from tests.promises.simulator.world import World

OBJECT = f"t/{A}/0/{NAME}"


def a_world() -> World:
    """Returns a world in which A is running, and has created an `object`."""
    world = World()

    async def story() -> None:
        await running(world)
        wanted = artifact(world, "object", upload=Upload.CLIENT, details={"uploadId": A})
        await world.services.artifacts.creation.create_or_find(A, 0, wanted)

    world.run(story())
    return world


def seen(credentials: Any) -> tuple[str, list[str], int, int]:
    """Returns client, scopes, start and end."""
    certificate = json.loads(credentials["certificate"])
    return credentials["clientId"], certificate["scopes"], certificate["start"], certificate["expiry"]


@pytest.mark.parametrize("hours", [1, 23, 25])
def test_upload_is_allowed_for_a_day_or_until_the_object_expires(hours: int) -> None:
    world = a_world()
    objects, now = world.services.artifacts.objects, world.clock.now()
    stored = world.run(objects.existing(OBJECT))[0]
    created = replace(stored, artifact=replace(stored.artifact, expires=now + timedelta(hours=hours)))
    run = world.tasks()[A].runs[0]
    client, scopes, start, end = seen(objects.upload_credentials(created, run))
    assert client == f"artifact-upload/{A}/0/on/{run.worker_group}/{run.worker_id}"
    assert scopes == [f"object:upload:{stored.artifact.details['projectId']}:{OBJECT}"]
    assert start == epoch_milliseconds(now)
    assert end == epoch_milliseconds(now + timedelta(hours=min(hours, 24)))


def test_an_object_that_has_just_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for an object that expired within the clients' skew end when they begin, not earlier."""
    world = a_world()
    objects, begun = world.services.artifacts.objects, world.clock.now()
    times = (begun + timedelta(milliseconds=number) for number in itertools.count())
    monkeypatch.setattr(objects, "_runtime", replace(objects._runtime, now=lambda: next(times)))
    stored = world.run(objects.existing(OBJECT))[0]
    created = replace(stored, artifact=replace(stored.artifact, expires=begun - timedelta(seconds=5)))
    *_, start, end = seen(objects.upload_credentials(created, world.tasks()[A].runs[0]))
    assert start == end


def test_download_is_allowed_for_an_hour() -> None:
    world = a_world()
    objects, now = world.services.artifacts.objects, world.clock.now()
    stored = world.run(objects.existing(OBJECT))[0]
    client, scopes, start, end = seen(objects.download_credentials(stored))
    assert client == f"artifact-download/{A}/0/{NAME}"
    assert scopes == [f"object:download:{OBJECT}"]
    assert (start, end) == (epoch_milliseconds(now), epoch_milliseconds(now + timedelta(hours=1)))


def share(credentials: Any) -> str:
    """Returns the share of calls with these credentials."""
    seed: str = json.loads(credentials["certificate"])["seed"]
    return seed[22:]
