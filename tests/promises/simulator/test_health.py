"""The verdict on the deployment is silent when all is well, and names each problem once, with what to do."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.auth.clients.ending import EndingCredentials, RefusedCredentials
from shared.auth.clients.rows import Client, ClientRecord, ClientStore, Refusal
from shared.auth.hawk import Signed, Site, calculate_mac
from shared.base.errors import AuthenticationFailed
from shared.overview.health import BACKLOG, Ask, Finding, Health, Heartbeat, asks_of
from shared.queue.tasks.internal_messages import CLAIM_QUEUE, EVENTS_QUEUE, INTERNAL_QUEUES
from shared.queue.tasks.messages import poison_queue
from shared.store import keys
from shared.store.interface import StorageUnavailable
from shared.telemetry.instruments import ENDING_CREDENTIALS
from tests.parts.twin.gate import Call, Phase
from tests.promises.admin.test_remedies import REMEDIES
from tests.promises.simulator.world import World, unordered


def health_of(world: World, **asks: Ask) -> Health:
    expiry = world.services.expiration._expiry
    clock = world.clock
    heartbeat = Heartbeat(asks, clock.now)
    return Health(
        heartbeat,
        world.memory.storage.queues,
        expiry,
        credentials_of(world),
        refused_of(world),
        world.services.health._states,
        clock.now,
    )


def credentials_of(world: World) -> EndingCredentials:
    runtime = world.services.runtime
    return EndingCredentials(ClientStore(world.memory.storage.tables), runtime)


def refused_of(world: World) -> RefusedCredentials:
    """Returns the refused clients as another process sees them."""
    runtime = world.services.runtime
    return RefusedCredentials(world.memory.storage.tables, runtime)


async def a_client(
    world: World, client_id: str, days: float, *, disabled: bool = False, goes: bool = False
) -> ClientRecord:
    """Creates a client that works for `days`."""
    now = world.clock.now()
    made = ClientRecord(
        client_id=client_id,
        sealed_token=b"sealed",
        description="",
        scopes=(),
        expires=now + timedelta(days=days),
        disabled=disabled,
        delete_on_expiration=goes,
        created=now,
        last_modified=now,
        last_date_used=now,
        last_rotated=now,
    )
    return await ClientStore(world.memory.storage.tables).add_client_row(made)


def codes(findings: list[Finding]) -> list[str]:
    assert all(finding.message and finding.remedy for finding in findings)
    for finding in findings:
        assert "./dev" not in finding.remedy, "people who run no commands read it"
        _names_commands_that_were_run(finding.command)
    return [finding.code for finding in findings]


def _names_commands_that_were_run(commands: str) -> None:
    for text in re.findall(r"\./dev admin (.*?)(?:, |$)", commands):
        alike = re.sub(r"(?<=redrive )\S+", "claim", re.sub(r"(?<=queue show )\S+", "TASK_QUEUE_ID", text))
        assert alike in REMEDIES


async def _create_queues(world: World) -> None:
    for queue in INTERNAL_QUEUES:
        await world.memory.storage.queues.create_queue(queue)
        await world.memory.storage.queues.create_queue(poison_queue(queue))


async def looked(world: World, health: Health, seconds: float = 11) -> list[str]:
    """Returns the findings of a new look, after `seconds`."""
    await world.clock.sleep(seconds)
    return codes(list(await health.findings()))


def test_all_is_well() -> None:
    world = unordered()

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        assert await looked(world, health) == []
        await world.create()
        for _ in range(10):
            assert await looked(world, health) == []

    world.run(story())


def test_dead_letters_and_a_backlog() -> None:
    world = unordered()

    async def story() -> None:
        await _create_queues(world)
        health, queues = health_of(world), world.memory.storage.queues
        for _ in range(BACKLOG - 1):
            await queues.put_message(EVENTS_QUEUE, "an event", visible_in=3600)
        assert await looked(world, health) == []
        await queues.put_message(EVENTS_QUEUE, "an event", visible_in=3600)
        assert await looked(world, health) == ["event-backlog"]
        for _ in range(3):
            await queues.put_message(poison_queue(CLAIM_QUEUE), "a message", visible_in=0)
        assert await looked(world, health) == ["poison-messages", "event-backlog"], "critical ones first"
        poisoned, _ = await health.findings()
        assert poisoned.message.startswith("3 internal messages could not be handled")

    world.run(story())


def test_an_expiry_job_that_does_not_run() -> None:
    world = unordered()

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        assert await looked(world, health, timedelta(days=3).total_seconds()) == [], "a new deployment"
        await world.handlers.expiration.run(300)
        assert await looked(world, health) == []
        assert await looked(world, health, timedelta(hours=2).total_seconds()) == []
        assert await looked(world, health, timedelta(hours=2).total_seconds()) == ["expiry-late"]
        await world.handlers.expiration.run(300)
        assert await looked(world, health) == []

    world.run(story())


def test_a_client_that_ends_is_named_a_month_ahead_and_after_its_end_until_somebody_prolongs_it() -> None:
    world = unordered()
    store = ClientStore(world.memory.storage.tables)

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        worker = await a_client(world, "worker/p/w", 364)
        await a_client(world, "ci/a-week", 7, goes=True)
        await a_client(world, "ci/blocked", 7, disabled=True)
        assert await looked(world, health, timedelta(days=333).total_seconds()) == []
        assert await looked(world, health, timedelta(days=2).total_seconds()) == ["credentials-end"]
        (finding,) = await health.findings()
        assert "Clients end soon: worker/p/w (" in finding.message
        assert await looked(world, health, timedelta(days=30).total_seconds()) == ["credentials-ended"]
        await store.replace(replace(worker, expires=worker.expires + timedelta(days=364)))
        assert await looked(world, health, timedelta(minutes=11).total_seconds()) == []

    world.run(story())


async def refuse_for(world: World, process: RefusedCredentials, client_id: str, why: Refusal, minutes: int) -> None:
    """Lets a process refuse a program's calls every half minute, and write the refusals as often as it does."""
    for second in range(0, minutes * 60 + 1, 30):
        process.note_refusal(client_id, why)
        if second % 60 == 0:
            await process.flush()
        await world.clock.sleep(30)


def test_a_client_that_is_refused_again_and_again_is_named_by_any_process_until_it_is_not() -> None:
    world = unordered()

    async def story() -> None:
        await _create_queues(world)
        health, another = health_of(world), refused_of(world)
        await refuse_for(world, another, "worker/p/w", "disabled", 3)
        assert await looked(world, health, 61) == ["credentials-refused"]
        (finding,) = await health.findings()
        assert "worker/p/w (disabled, last " in finding.message
        await refuse_for(world, another, "worker/p/w", "token", 60)
        assert await looked(world, health, 61) == ["credentials-refused"], "it goes on for longer than it is kept"
        assert "its old token" in (await health.findings())[0].message
        assert await looked(world, health, 28 * 60) == [], "its last refusal that was written is half an hour ago"

    world.run(story())


def test_what_is_refused_by_one_process_is_found_and_counted_by_the_others() -> None:
    world = unordered()
    here, there = world.services, world.handlers
    former = "the-token-that-was-replaced"
    known = Client(client_id="project/ci", access_token="the-token-of-now-0123", scopes=(), replaced_token=former)

    def header(token: str) -> dict[str, str]:
        signed = Signed(id=known.client_id, ts=str(int(world.clock.now().timestamp())), mac="", nonce="n")
        mac = calculate_mac(signed, key=token, method="GET", resource="/x", site=Site.of("https://tc.example.com"))
        return {"authorization": f'Hawk id="{signed.id}", ts="{signed.ts}", nonce="n", mac="{mac.decode()}"'}

    async def client(client_id: str) -> Client:
        return known

    here.keyring.client = client  # type: ignore[method-assign]

    async def refused() -> None:
        for token in (former, "what a forger makes up"):
            with pytest.raises(AuthenticationFailed):
                await here.authenticator.caller("GET", ["/x"], header(token), None)

    async def story() -> None:
        await _create_queues(world)
        flushing = asyncio.ensure_future(here.refused_credentials.keep_flushing())
        for _ in range(5):
            await refused()
            await world.clock.sleep(60)
        flushing.cancel()
        (finding,) = await there.health.findings()
        assert finding.code == "credentials-refused"
        assert "project/ci (its old token" in finding.message
        await there.gauges.refresh()
        assert there.runtime.meter.values_of(ENDING_CREDENTIALS)[("refused",)] == 1

    world.run(story())


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("tables", "tables-silent"), ("queues", "queues-silent"), ("Service Bus", "service-bus-silent")],
)
def test_what_does_not_answer(name: str, wanted: str) -> None:
    world = unordered()

    async def fails() -> None:
        raise StorageUnavailable

    async def story() -> None:
        await _create_queues(world)
        assert await looked(world, health_of(world, **{name: fails})) == [wanted]

    world.run(story())


@pytest.mark.parametrize(("part", "target"), [("tables", keys.TASKS), ("queues", CLAIM_QUEUE), ("blobs", keys.PRIVATE)])
def test_the_heartbeat_asks_each_part_of_storage(part: str, target: str) -> None:
    silent: list[str] = []

    def gate(call: Call, phase: Phase) -> None:
        if silent and call.target == target:
            raise StorageUnavailable

    world = unordered(gate)
    heartbeat = Heartbeat(asks_of(world.memory.storage), world.clock.now)

    async def story() -> None:
        await _create_queues(world)
        silent.append(target)
        assert await heartbeat.silent() == [part]

    world.run(story())


def test_many_who_ask_cost_no_more_than_one() -> None:
    reads = 0

    async def gate(call: Call, phase: Phase) -> None:
        nonlocal reads
        reads += call.target == keys.EXPIRY and phase is Phase.BEFORE

    world = unordered(gate)

    async def story() -> None:
        await _create_queues(world)
        health = health_of(world)
        await asyncio.gather(*(health.findings() for _ in range(20)))
        await health.findings()
        assert reads == 1

    world.run(story())
