"""A deletion that takes effect late deletes nothing that was made after it: what is acknowledged stays (design 2.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from shared.app.services import Services
from shared.auth.clients.accounts import ClientRequest
from shared.store.interface import StorageUnavailable
from tests.simulator.expiring import CLIENT, everybody
from tests.simulator.indexing import entry
from tests.simulator.late import How, LateRequest
from tests.simulator.world import World
from tests.twin.driver import Simulation

PATH = "demo.v2.app"


async def insert(world: World, services: Services) -> object:
    return await services.index.insert(entry(world, PATH))


async def create_client(world: World, services: Services) -> object:
    expires = world.clock.now() + timedelta(hours=4)
    request = ClientRequest(description="", expires=expires, scopes=(), delete_on_expiration=False)
    return await services.clients.create(CLIENT, request, everybody)


CASES: dict[str, tuple[Callable[..., Awaitable[object]], ...]] = {
    "deleteTask of the index": (
        insert,
        lambda world, services: services.index.remove(PATH),
        lambda world, services: services.index.find(PATH),
    ),
    "deleteClient": (
        create_client,
        lambda world, services: services.clients.delete(CLIENT),
        lambda world, services: services.clients.get(CLIENT),
    ),
}
"""By name: what makes it, deletes it, and finds it."""


@pytest.mark.parametrize("how", ["lost", "doubled"])
@pytest.mark.parametrize("case", CASES)
def test_what_was_made_after_it_stays(case: str, how: How) -> None:
    """Each write of the deletion, as late as may be; its client sends it again, and is answered."""
    make, delete, find = CASES[case]
    number = 0
    while True:
        number += 1
        gate = LateRequest(number, how)
        world = World(Simulation.scripted([]), gate)
        world.is_ordered = False
        gate.world = world

        async def story(world: World = world, gate: LateRequest = gate) -> None:
            await make(world, world.services)
            try:
                await world.victim(delete(world, world.services))
            except StorageUnavailable:
                await delete(world, world.process())
            await world.clock.sleep(1)
            await make(world, world.process())
            await world.clock.sleep(60)
            gate.land()
            assert await find(world, world.process())

        world.run(story())
        if gate.hit is None:
            break
    assert number > 1
