"""Entries and namespaces of the index: which pages list them, and when they expire (contract 18, design 9)."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.store import keys
from tests.promises.simulator.indexing import all_namespaces, entry, expire_for
from tests.promises.simulator.world import World


def test_expired_entries_and_namespaces_go_and_nothing_else() -> None:
    world = World()

    async def story() -> None:
        await world.services.index.insert(entry(world, "old.a.x", days=0.5))
        await world.services.index.insert(entry(world, "old.y", days=0.5))
        await world.services.index.insert(entry(world, "kept.z", days=20))
        await expire_for(world, 6)
        left = sorted(str(row.values["path"]) for row in world.rows(keys.INDEX))
        assert left == ["kept", "kept.z"]
        sweeps = [row for row in world.rows(keys.EXPIRY) if row.key.startswith(keys.INDEX_SWEEP)]
        assert len(sweeps) == 2, "one for the top, one for what is kept"

    world.run(story())


def test_what_has_expired_is_in_no_list_and_makes_no_page_without_an_end() -> None:
    world = World()

    async def story() -> None:
        for name in ("abc", "bbc", "cbc", "dbc"):
            await world.services.index.insert(entry(world, f"{name}.x", days=9))
            await world.services.index.insert(entry(world, name, days=0.1 if name == "bbc" else 9))
        await world.services.index.insert(entry(world, "over.x", days=0.1))
        await world.clock.sleep(3 * 24 * 3600)
        assert [name for page in await all_namespaces(world, "", 1) for name in page] == ["abc", "bbc", "cbc", "dbc"]
        found, start = [], ""
        while start is not None:
            page, more = await world.services.index.entries("", start, 1)
            found += [one.path for one in page]
            if more is None:
                break
            start = more
        assert found == ["abc", "cbc", "dbc"]

    world.run(story())


def test_namespaces_are_never_shortened_and_a_losing_call_leaves_them() -> None:
    world = World()

    async def until(namespace: str) -> datetime:
        parent = namespace.rpartition(".")[0]
        page, _ = await world.services.index.namespaces(parent, "", 10)
        (found,) = [one.expires for one in page if one.path == namespace]
        return found

    async def story() -> None:
        index = world.services.index
        await index.insert(entry(world, "ns.deep.a", rank=5, days=3))
        first = await until("ns.deep")
        assert await until("ns") == first + timedelta(days=1)
        await index.insert(entry(world, "ns.deep.b", days=1))
        assert await until("ns.deep") == first, "not shortened"
        assert (await index.insert(entry(world, "ns.deep.a", rank=4, days=30))).rank == 5
        assert await until("ns.deep") == first, "a losing call changes nothing"
        await index.insert(entry(world, "ns.deep.a", rank=6, days=30))
        assert await until("ns.deep") == first + timedelta(days=27)
        await index.remove_entry("ns.deep.a")
        assert await until("ns") == first + timedelta(days=28), "deleting leaves it"

    world.run(story())
