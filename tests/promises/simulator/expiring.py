"""Makes one of everything that expires, runs the job that deletes it, and tells what is left."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.app.services import Services
from shared.auth.clients.accounts import CreateClientRequest
from shared.auth.clients.rows import TABLE as CLIENTS
from shared.base.dates import format_date
from shared.queue.artifacts.rules import Upload
from shared.queue.tasks.rules import Resolved
from shared.store import keys
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import as_process
from tests.promises.simulator import artifact_scenarios
from tests.promises.simulator.artifact_scenarios import CONTENT
from tests.promises.simulator.situations import GROUP, A, B
from tests.promises.simulator.world import World

HOUR = 3600.0
DAY = 24 * HOUR
JOB = "job"
"""The process in which the expiry job runs."""
EARLY, LATE = "public/early", "public/late"
CLIENT = "project/ci"
LARGE = {"noise": base64.b64encode(random.Random(7).randbytes(750_000)).decode()}
"""A value that is too large for a row even when compressed."""


async def everybody(names: Sequence[str]) -> None:
    """Authorises everybody."""


async def everything(world: World) -> None:
    """Makes what `all_but_a_large_definition` makes, and B, whose definition is large."""
    await all_but_a_large_definition(world)
    await world.create(B, expires=format_date(world.clock.now() + timedelta(hours=4)), payload=LARGE)


async def all_but_a_large_definition(world: World) -> None:
    """Makes A, in a group, with an artifact that expires before it and one that came after its end; a client; and the
    worker that claimed A, with its pool and its provisioner."""
    expires = format_date(world.clock.now() + timedelta(hours=4))
    await world.create(A, taskGroupId=GROUP, retries=0, expires=expires)
    assert await world.claim()
    soon = world.clock.now() + timedelta(hours=1)
    await relay(world, EARLY, expires=soon)
    await world.services.lifecycle.report_exception(A, 0, Resolved.MALFORMED_PAYLOAD)
    await world.drain(30)
    await artifact_scenarios.direct(world, LATE)
    request = CreateClientRequest(
        description="", expires=format_date(world.clock.now() + timedelta(hours=4)), scopes=[], deleteOnExpiration=True
    )
    await world.services.clients.make_client(CLIENT, request, everybody)


async def relay(world: World, name: str, services: Services | None = None, **changes: Any) -> None:
    """Creates an artifact of A whose content comes through the service, and sends it."""
    artifacts = (services or world.services).artifacts
    wanted = replace(artifact_scenarios.artifact(world, "s3", name, upload=Upload.RELAY), **changes)
    await artifacts.creation.create_or_find(A, 0, wanted)
    await artifact_scenarios.relay(world, CONTENT, name=name, services=services)


async def expire(world: World, hours: float, services: Services | None = None) -> int:
    """Runs the job every hour; returns how many runs have failed."""
    failed = 0
    for _ in range(int(hours)):
        try:
            await as_process(JOB, (services or world.handlers).expiration.run(300))
        except StorageUnavailable:
            failed += 1
        await world.clock.sleep(HOUR)
    return failed


_OF_A_POOL = {keys.POOL, keys.RETURNED}
"""Rows of which each pool has one, and keeps it."""


def left(world: World) -> set[str]:
    """Returns what there is of all that expires."""
    found = {f"task {row.partition}" for row in world.rows(keys.TASKS)}
    found |= {f"group {row.partition}" for row in world.rows(keys.GROUPS)}
    found |= {row.key.split("~")[0] for row in world.rows(keys.POOLS) if row.key not in _OF_A_POOL}
    found |= {f"listed {row.partition}" for row in world.rows(keys.DIRECTORY) if {"expires", "created"} & {*row.values}}
    found |= {f"client {row.key}" for row in world.rows(CLIENTS)}
    for container in (keys.PUBLIC, keys.PRIVATE):
        found |= {f"content of {path.split('/')[0]}" for path in world.account.committed(container)}
    return found


def scheduled(world: World) -> set[str]:
    """Returns the kinds of what the job has yet to do, without histories: who deleted what is known for a month."""
    kinds = {row.key.split("~")[0] for row in world.rows(keys.EXPIRY) if row.key != "cursor"}
    return kinds - {keys.AUDIT_SWEEP}
