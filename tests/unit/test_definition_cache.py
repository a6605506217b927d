"""Definitions that a process keeps: for as long as their task can be there, and up to a weight."""

from __future__ import annotations

from datetime import timedelta

from shared.base.dates import format_date, parse_date
from shared.queue.tasks.definitions import DefinitionCache
from shared.store.counting import counting
from tests.simulator.situations import A
from tests.simulator.world import World
from tests.unit.tasks import ID, NOW, a_definition


def test_definition_is_kept_until_its_task_expires() -> None:
    now = [NOW]
    definition = a_definition(deadline=format_date(NOW), expires=format_date(NOW + timedelta(hours=1)))
    cache = DefinitionCache(1000, lambda: now[0])
    cache.put(definition, "print", 10)
    now[0] = parse_date(definition.body["expires"]) - timedelta(milliseconds=1)
    cached = cache.get(ID)
    assert cached is not None
    assert (cached.definition, cached.fingerprint) == (definition, "print")
    now[0] += timedelta(milliseconds=1)
    assert cache.get(ID) is None
    now[0] -= timedelta(milliseconds=1)
    assert cache.get(ID) is None, "it is forgotten"


def test_definition_with_another_fingerprint_than_the_status_row_names_is_read_again() -> None:
    """As when the id was used again, whatever the clocks say."""
    world = World()
    world.is_ordered = False

    async def story() -> None:
        await world.create(A, payload={"which": "stored"})
        stale = world.process()
        assert await stale.stores.tasks.load(A)
        other = world.definition(A, payload={"which": "stale"})
        stale.stores.tasks._cache.put(other, "another", 10)
        definition = await stale.stores.tasks.load(A)
        assert definition is not None
        assert definition.definition.body["payload"] == {"which": "stored"}
        with counting() as operations:
            assert await stale.stores.tasks.load(A) == definition
        assert operations.total == 1, "now it is kept, and its status row alone is read"

    world.run(story())
