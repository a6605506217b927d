"""Scenarios that measure calls of workers (design 6)."""

from __future__ import annotations

import asyncio

import pytest

from shared.queue.tasks.messages import pending_queue
from shared.queue.tasks.rules import Resolved
from shared.store.counting import Operations
from tests.promises.azurite.budgets import Bench, budget, poll_answer
from tests.promises.events.attempts import until
from tests.promises.simulator.world import POOL, WORKER

REPORT = "reportCompleted, reportFailed; reportException, final"
UNKNOWN = "claimWork … n of them that this process does not know"


@budget("claimWork, one task", "claimWork, one task, polled by the server")
async def claim(bench: Bench) -> Operations:
    await bench.create()
    return await bench.measure(bench.calls.work.claim_work(POOL, WORKER, 1, 5))


@budget("claimWork, one task of another process", "claimWork, one task, polled by the server", UNKNOWN, n=1)
async def claim_unseen(bench: Bench) -> Operations:
    """Measures claimWork in a process that has the definition not in memory: it comes with the same request."""
    for _ in range(2):
        await bench.create()
    await bench.claims(1, bench.handlers)  # from here on, its copy of the worker's row is the latest
    return await bench.measure(bench.handlers.work.claim_work(POOL, WORKER, 1, 5))


@budget("claimWork, 3 tasks of another process", "claimWork … n tasks", UNKNOWN, n=3)
async def claim_three_unseen(bench: Bench) -> Operations:
    for _ in range(4):
        await bench.create()
    await bench.claims(1, bench.handlers)
    return await bench.measure(bench.handlers.work.claim_work(POOL, WORKER, 3, 5))


@budget("claimWork, 4 tasks", "claimWork … n tasks", n=4)
async def claim_four(bench: Bench) -> Operations:
    for _ in range(4):
        await bench.create()
    return await bench.measure(bench.calls.work.claim_work(POOL, WORKER, 4, 5))


@budget("claimWork with xmlMessage", "claimWork … with xmlMessage")
async def claim_polled(bench: Bench) -> Operations:
    await bench.create()
    (message,) = await bench.storage.queues.get_messages(pending_queue(POOL, "lowest"), hidden_for=60)
    answer = poll_answer(message.text, message.receipt.message_id, message.receipt.pop_receipt)
    return await bench.measure(bench.calls.work.claim_polled(POOL, WORKER, 1, answer, 0))


@budget("claimWork, nothing there", "claimWork … nothing there, n bands in use", n=1)
async def claim_nothing(bench: Bench) -> Operations:
    """Measures claimWork without work: one Get per band in use and poll."""
    return await bench.measure(bench.calls.work.claim_work(POOL, WORKER, 1, 0.01))


@budget(
    "claimWork, waited",
    "claimWork, one task, polled by the server",
    "claimWork … after a wait that was ended for it, n bands in use",
    n=1,
)
async def claim_waited(bench: Bench) -> Operations:
    """Measures claimWork of a worker that finds nothing, waits, is told that there is something, and calls again."""

    async def calls() -> None:
        assert not await bench.calls.work.claim_work(POOL, WORKER, 1, 5)
        assert await bench.calls.work.claim_work(POOL, WORKER, 1, 5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shared.queue.claims.work.NOTED_AFTER", 5)  # or it would be noted, if this machine is slow
        measuring = asyncio.ensure_future(bench.measure(calls()))
        await until(lambda: POOL in bench.calls.work._poller._pools and not bench.calls.work._poller._pools[POOL].new)
        await bench.create()
        return await measuring


@budget("claimTask", "claimTask")
async def claim_task(bench: Bench) -> Operations:
    task_id = await bench.create()

    async def call() -> None:
        await bench.calls.work.claim_task(await bench.calls.work.found_for_claim(task_id), 0, WORKER)

    return await bench.measure(call())


@budget("reclaimTask", "reclaimTask")
async def reclaim(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.work.reclaim_task(await bench.running(), 0))


@budget("reclaimTask, unknown", "reclaimTask", "reclaimTask … by a process that does not know the task")
async def reclaim_unknown(bench: Bench) -> Operations:
    return await bench.measure(bench.handlers.work.reclaim_task(await bench.running(), 0))


@budget("reclaimTask, renewed elsewhere", "reclaimTask", "reclaimTask … that another process has renewed since")
async def reclaim_renewed(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.work.reclaim_task(await renewed_elsewhere(bench), 0))


async def renewed_elsewhere(bench: Bench) -> str:
    """Returns a running task that this process has committed, and another process after it."""
    task_id = await bench.running()
    await bench.handlers.work.reclaim_task(task_id, 0)
    return task_id


@budget("reportCompleted", REPORT)
async def report(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.report(await bench.running(), 0, Resolved.COMPLETED))


@budget("reportCompleted, unknown", REPORT, "reportCompleted … by a process that does not know the task")
async def report_unknown(bench: Bench) -> Operations:
    task_id = await bench.running()
    return await bench.measure(bench.handlers.lifecycle.report(task_id, 0, Resolved.COMPLETED))


@budget("reportCompleted, renewed elsewhere", REPORT, "reportCompleted … that another process has renewed since")
async def report_renewed(bench: Bench) -> Operations:
    return await bench.measure(bench.calls.lifecycle.report(await renewed_elsewhere(bench), 0, Resolved.COMPLETED))


@budget("reportCompleted, followed up", REPORT, "reportCompleted … followed up by its process")
async def report_followed(bench: Bench) -> Operations:
    services = bench.process(max_followed_resolutions=1)
    task_id = await bench.create()
    (claim,) = await bench.claims(1, services)
    assert claim.task.task_id == task_id
    await bench.create()

    async def call() -> None:
        await services.lifecycle.report(task_id, 0, Resolved.COMPLETED)
        await services.following.finish(60)

    return await bench.measure(call())


@budget("reportException, retry", "reportException, retried")
async def report_retry(bench: Bench) -> Operations:
    task_id = await bench.running()
    return await bench.measure(bench.calls.lifecycle.report_exception(task_id, 0, Resolved.WORKER_SHUTDOWN))


@budget("reportException, no retry", REPORT)
async def report_exception(bench: Bench) -> Operations:
    task_id = await bench.running()
    return await bench.measure(bench.calls.lifecycle.report_exception(task_id, 0, Resolved.INTERNAL_ERROR))
