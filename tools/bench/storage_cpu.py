"""CPU of this process for each storage request, in milliseconds: `python -m tools.bench.storage_cpu [--count N]`.

Runs against an Azurite of its own. What counts is the client's CPU (the emulator runs in processes of its own), so
the figures say nothing of latency. azure-data-tables as it comes is measured beside ours for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

from azure.data.tables.aio import TableClient

from shared.store.connection import AzureStorage
from shared.store.interface import Create, Merge, Storage, Upsert, Value
from tools.local.azurite import Azurite

_WARM_UP = 20
_PAYLOAD: dict[str, Value] = {"content": b"x" * 1024, "state": "pending", "sequence": 7}
_BODY = "e" * 200


async def measure(name: str, count: int, call: Callable[[int], Awaitable[object]]) -> float:
    """Print and answer the milliseconds of CPU that one call takes, after a warm-up."""
    for number in range(_WARM_UP):
        await call(-1 - number)
    started = time.process_time()
    for number in range(count):
        await call(number)
    spent = (time.process_time() - started) * 1000 / count
    print(f"{name:45} {spent:6.2f} ms")
    return spent


async def measure_all(connection_string: str, count: int) -> None:
    """Every kind of request that a task's life needs."""
    async with AzureStorage.from_connection_string(connection_string, prefix="bench") as account:
        await _measure_tables(account.storage, count)
        await _measure_queues(account.storage, count)
        async with TableClient.from_connection_string(connection_string, account.names.table("Tasks")) as stock:
            await measure("get of 1 KiB, SDK as it comes", count, lambda _: stock.get_entity("p", "row"))


async def _measure_tables(storage: Storage, count: int) -> None:
    tables = storage.tables
    await tables.transact("Tasks", "p", [Upsert("row", _PAYLOAD)])
    await measure("get of 1 KiB", count, lambda _: tables.get("Tasks", "p", "row"))
    await measure("get of nothing", count, lambda _: tables.get("Tasks", "p", "no"))
    await measure("query of 3 rows", count, lambda _: tables.query("Tasks", "p", start="r", end="s"))
    await measure("transact, 1 operation", count, lambda _: tables.transact("Tasks", "p", [Merge("row", _PAYLOAD)]))
    await measure(
        "transact, 3 operations",
        count,
        lambda n: tables.transact("Tasks", f"p{n}", [Create(key, _PAYLOAD) for key in ("a", "b", "c")]),
    )


async def _measure_queues(storage: Storage, count: int) -> None:
    queues = storage.queues
    await measure("put", count, lambda _: queues.put("q", _BODY))
    await measure("get of 1 message", count, lambda _: queues.get("q", hidden_for=60))
    receipt = await queues.put("moved", _BODY)

    async def move(_: int) -> None:
        nonlocal receipt
        receipt = await queues.update("moved", receipt, visible_in=60)

    await measure("update", count, move)
    receipts = [await queues.put("gone", _BODY) for _ in range(count + _WARM_UP)]
    await measure("delete", count, lambda _: queues.delete("gone", receipts.pop()))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="calls of each kind (default: 500)")
    count = parser.parse_args().count
    with Azurite.start(in_memory=True) as azurite:
        asyncio.run(measure_all(azurite.connection_string, count))


if __name__ == "__main__":
    main()
