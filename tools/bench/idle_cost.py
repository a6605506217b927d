"""What an idle worker costs: requests that reach our functions, by worker and minute, in both ways of polling.

    python -m tools.bench.idle_cost [--workers N] [--minutes M] [--port P]

Starts a local stack of its own and N reference workers of each kind, one kind after the other. Requests are counted
where they leave the workers: those to the service by their family, those to the storage together.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections import Counter
from unittest import mock

import aiohttp

from tools.local import state
from tools.local.ports import Ports
from tools.local.stack import Stack, StackOptions
from worker.options import POLL_MODES, Options
from worker.queue import Advice, open_session
from worker.worker import Worker

SETTLING_SECONDS = 15.0
"""Start-up is not counted."""
STORAGE = "storage"


class Counting:
    """Counts the requests of every session that it opens."""

    def __init__(self, api_port: int) -> None:
        self._api_port = api_port
        self.counts: Counter[str] = Counter()

    def open_session(self, advice: Advice | None = None) -> aiohttp.ClientSession:
        """In place of the worker's own."""
        session = open_session(advice)
        config = aiohttp.TraceConfig()
        config.on_request_start.append(self._count)
        config.freeze()
        session.trace_configs.append(config)
        return session

    async def _count(self, session: object, context: object, start: aiohttp.TraceRequestStartParams) -> None:
        is_ours = start.url.port == self._api_port
        self.counts[start.url.raw_path.split("/")[4] if is_ours else STORAGE] += 1


async def measure(stack: Stack, counting: Counting, mode: str, workers: int, minutes: float) -> Counter[str]:
    """Requests of so many idle workers in so many minutes, by family."""
    environment = stack.environment
    credentials = {
        "clientId": environment["TASKCLUSTER_CLIENT_ID"],
        "accessToken": environment["TASKCLUSTER_ACCESS_TOKEN"],
    }
    fleet = [
        Worker(
            Options(
                root_url=environment["TASKCLUSTER_ROOT_URL"],
                credentials=credentials,
                task_queue_id=f"bench/{mode}",
                worker_group="bench",
                worker_id=f"w{number}",
                work_dir=state.folder(stack.options.ports.api) / f"{mode}-{number}",
                poll_mode=mode,
            )
        )
        for number in range(workers)
    ]
    running = [asyncio.create_task(worker.run()) for worker in fleet]
    await asyncio.sleep(SETTLING_SECONDS)
    counting.counts.clear()
    await asyncio.sleep(minutes * 60)
    counted = Counter(counting.counts)
    for worker in fleet:
        worker.shut_down()
    await asyncio.gather(*running)
    return counted


async def bench(stack: Stack, workers: int, minutes: float) -> None:
    """Prints a line for each way of polling."""
    counting = Counting(stack.options.ports.api)
    print(f"{workers} idle workers, {minutes:g} minutes each way; requests by worker and minute:")
    print(f"{'mode':12} {'functions':>9} {'storage':>9}")
    with mock.patch("worker.worker.open_session", counting.open_session):
        for mode in POLL_MODES:
            counted = await measure(stack, counting, mode, workers, minutes)
            storage = counted.pop(STORAGE, 0)
            rates = [count / workers / minutes for count in (counted.total(), storage)]
            print(f"{mode:12} {rates[0]:9.2f} {rates[1]:9.2f}  {dict(counted) or ''}", flush=True)


def main(workers: int, minutes: float, port: int) -> None:
    """On a stack of its own."""
    ports = Ports.derive(port)
    try:
        with Stack.start(StackOptions(ports, in_memory=True, storage_apart=True)) as stack:
            asyncio.run(bench(stack, workers, minutes))
    finally:
        shutil.rmtree(state.folder(ports.api), ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--port", type=int, default=7971)
    given = parser.parse_args()
    main(given.workers, given.minutes, given.port)
