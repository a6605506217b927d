"""What processes see of clients and roles, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from shared.auth.clients.rows import TABLE as CLIENTS
from shared.base.dates import parse_date
from shared.store.counting import Kind
from shared.store.interface import StorageUnavailable
from tests.parts.twin import Call, Fail, MemoryStorage, Phase
from tests.parts.twin.gate import as_process, process_name
from tests.parts.unit.accounts import ANYTHING, KEY, OLD_KEY, Deployment, client, process, role


@pytest.fixture
def here(twin: MemoryStorage) -> Deployment:
    return process(twin)


@pytest.mark.parametrize("client_id", ["a/b\\c", "a#b", "a?b", "a b", "ä", "", "x" * 501, "a\nb"])
async def test_no_client_id_that_a_caller_sends_breaks_storage(here: Deployment, client_id: str) -> None:
    assert await here.keyring.client(client_id) is None


async def test_other_processes_see_changes_within_a_minute(twin: MemoryStorage) -> None:
    here, there = process(twin), process(twin)
    await here.clients.make_client("x", client(twin), ANYTHING)
    await here.roles.make_role("r", role("old"), ANYTHING)
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


async def test_names_that_nobody_has_push_out_no_client(here: Deployment, twin: MemoryStorage) -> None:
    await here.clients.make_client("x", client(twin), ANYTHING)
    await here.keyring.client("x")
    for number in range(3000):
        assert await here.keyring.client(f"forged/{number}") is None
    twin.gate = Fail(lambda call: call.target == CLIENTS, times=100)
    assert await here.keyring.client("x") is not None


async def test_use_is_noted_at_most_once_an_hour_of_all_processes(twin: MemoryStorage) -> None:
    processes = [process(twin), process(twin)]
    await processes[0].clients.make_client("x", client(twin), ANYTHING)
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
        used = parse_date((await processes[0].clients.find_client("x"))["lastDateUsed"])
        assert used == noted or used - noted >= timedelta(hours=1)
        noted = used
        assert twin.clock.now() - used <= timedelta(hours=1)
    assert 2 <= len(writes) <= 3 * 2


async def test_a_rotation_of_keys_reaches_clients_as_they_are_used(twin: MemoryStorage) -> None:
    before = process(twin, [OLD_KEY])
    made = await before.clients.make_client("x", client(twin, expires="2027-01-01T00:00:00Z"), ANYTHING)
    token = made["accessToken"]
    await before.clients.make_client("idle", client(twin), ANYTHING)
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
    assert after.refused == [("idle", "unreadable")]
    await after.clients.reset_access_token("idle")
    assert await after.keyring.client("idle") is not None


CHANGES: dict[str, Callable[[Deployment], Awaitable[object]]] = {
    "disable": lambda here: here.clients.set_disabled("x", True),
    "reset": lambda here: here.clients.reset_access_token("x"),
    "delete": lambda here: here.clients.remove_client("x"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_whose_answer_was_lost_is_seen_at_once(
    here: Deployment, twin: MemoryStorage, change: str
) -> None:
    await here.clients.make_client("x", client(twin), ANYTHING)
    before = await here.keyring.client("x")
    assert before is not None
    twin.gate = Fail(lambda call: call.target == CLIENTS and call.kind is Kind.TABLE_WRITE, Phase.AFTER)
    with pytest.raises(StorageUnavailable):
        await CHANGES[change](here)
    after = await here.keyring.client("x")
    assert after is None or after.disabled or after.access_token != before.access_token


async def test_who_asks_after_a_change_does_not_get_what_was_read_before_it(
    here: Deployment, twin: MemoryStorage
) -> None:
    await here.roles.make_role("r", role("old"), ANYTHING)
    answered = asyncio.Event()

    async def slow(call: Call, phase: Phase) -> None:
        if process_name() == "reader" and phase is Phase.AFTER:
            await answered.wait()

    twin.gate = slow
    reader = asyncio.ensure_future(as_process("reader", here.keyring.roles()))
    await asyncio.sleep(0)
    await here.roles.update("r", role("new"), ANYTHING)
    assert "new" in (await here.keyring.roles()).expand(["assume:r"])
    answered.set()
    assert "old" in (await reader).expand(["assume:r"])
    assert "new" in (await here.keyring.roles()).expand(["assume:r"]), "the late answer is not kept"
