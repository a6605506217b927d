"""What processes see of clients and roles, and when."""

from datetime import timedelta

import pytest

from shared.auth.client_store import TABLE as CLIENTS
from shared.domain.dates import parse_date
from shared.storage.counting import Kind
from shared.storage.interface import StorageUnavailable
from tests.twin import Call, Fail, MemoryStorage, Phase
from tests.unit.accounts import ANYTHING, KEY, OLD_KEY, Deployment, client, process, role


@pytest.fixture
def here(twin: MemoryStorage) -> Deployment:
    return process(twin)


@pytest.mark.parametrize("client_id", ["a/b\\c", "a#b", "a?b", "a b", "ä", "", "x" * 501, "a\nb"])
async def test_whoever_signs_chooses_his_id_and_none_breaks_storage(here: Deployment, client_id: str) -> None:
    assert await here.keyring.client(client_id) is None


async def test_other_processes_see_changes_within_a_minute(twin: MemoryStorage) -> None:
    here, there = process(twin), process(twin)
    await here.clients.create("x", client(twin), ANYTHING)
    await here.roles.create("r", role("old"), ANYTHING)
    assert await there.keyring.client("x") is not None
    assert "old" in (await there.keyring.roles()).expand(["assume:r"])
    await here.clients.set_disabled("x", True)
    await here.roles.update("r", role("new"), ANYTHING)
    twin.clock.advance(59)
    stale = await there.keyring.client("x")
    assert stale is not None
    assert not stale.disabled
    twin.clock.advance(1)
    fresh = await there.keyring.client("x")
    assert fresh is not None
    assert fresh.disabled
    assert "new" in (await there.keyring.roles()).expand(["assume:r"])


async def test_a_client_that_is_made_is_found_elsewhere_soon(twin: MemoryStorage) -> None:
    here, there = process(twin), process(twin)
    assert await there.keyring.client("x") is None
    await here.clients.create("x", client(twin), ANYTHING)
    twin.clock.advance(5)
    assert await there.keyring.client("x") is not None


async def test_use_is_noted_at_most_once_an_hour_of_all_processes(twin: MemoryStorage) -> None:
    processes = [process(twin), process(twin)]
    await processes[0].clients.create("x", client(twin), ANYTHING)
    writes: list[Call] = []

    async def count(call: Call, phase: Phase) -> None:
        if call.target == CLIENTS and call.kind is Kind.TABLE_WRITE and phase is Phase.BEFORE:
            writes.append(call)

    twin.gate = count
    noted = twin.clock.now()
    for _ in range(3 * 60 * 2):
        twin.clock.advance(30)
        for one in processes:
            known = await one.keyring.client("x")
            assert known is not None
            await one.keyring.used(known)
        used = parse_date((await processes[0].clients.get("x"))["lastDateUsed"])
        assert used == noted or used - noted >= timedelta(hours=1)
        noted = used
        assert twin.clock.now() - used <= timedelta(hours=1)
    assert 2 <= len(writes) <= 3 * 2


async def test_use_that_cannot_be_noted_does_not_fail_the_call(here: Deployment, twin: MemoryStorage) -> None:
    await here.clients.create("x", client(twin), ANYTHING)
    twin.clock.advance(3601)
    known = await here.keyring.client("x")
    assert known is not None
    for phase in Phase:
        twin.gate = Fail(lambda call: call.target == CLIENTS, phase, times=100)
        await here.keyring.used(known)
    with pytest.raises(StorageUnavailable):
        await here.keyring.client("x")


async def test_a_rotation_of_keys_reaches_clients_as_they_are_used(twin: MemoryStorage) -> None:
    before = process(twin, [OLD_KEY])
    token = (await before.clients.create("x", client(twin, expires="2027-01-01T00:00:00Z"), ANYTHING))["accessToken"]
    await before.clients.create("idle", client(twin), ANYTHING)
    twin.clock.advance(3600)
    during = process(twin, [KEY, OLD_KEY])
    known = await during.keyring.client("x")
    assert known is not None
    await during.keyring.used(known)
    after = process(twin, [KEY])
    known = await after.keyring.client("x")
    assert known is not None
    assert known.access_token == token
    # One that was not used meanwhile works no more, until its token is reset.
    assert await after.keyring.client("idle") is None
    await after.clients.reset_access_token("idle")
    assert await after.keyring.client("idle") is not None
