"""How many calls a second the storage emulator itself could serve: the same kinds of requests, made bare.

No SDK and no signature (a shared access signature is part of each URL), by processes of their own. Rows and messages
have about the size of real ones. What kinds of requests a call makes is said by `tools.bench.budgets`.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import uuid4

import aiohttp
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import AccountSasPermissions as TablePermissions
from azure.data.tables import ResourceTypes as TableResources
from azure.data.tables import TableServiceClient
from azure.data.tables import generate_account_sas as table_sas
from azure.storage.queue import AccountSasPermissions, QueueServiceClient, ResourceTypes, generate_account_sas

from shared.store import table_requests as batch
from shared.store.connection import parse_connection_string
from shared.store.interface import Create, Value
from shared.store.table_requests import encode_entity
from shared.store.wire import StorageEndpoint
from tools.bench.budgets import CALLS, FOLLOWED, Cost

NAME = "benchceiling"
"""Of a table; names of queues begin with it. Each measurement has queues of its own: the emulator looks through all
messages of a queue, and those of the measurement before are left in it.
"""
POLLED = "-polled"
"""Ends the name of the queue that is asked for messages: in the other one, thousands are hidden."""
POLLED_MESSAGES = 200
"""In that queue: more than are taken in the second for which each is hidden then."""
AT_ONCE = 8
"""Calls under way in each process."""
_ROW: Mapping[str, Value] = {"content": b"x" * 700, "state": "pending"}
_MESSAGE = "<QueueMessage><MessageText>{}</MessageText></QueueMessage>".format("e" * 200)
_HEADERS = {
    "Accept": "application/json;odata=minimalmetadata",
    "x-ms-version": "2019-02-02",
    "DataServiceVersion": "3.0",
}

_FOLLOWED_UP = (CALLS["claimWork"], CALLS["reportCompleted"], CALLS["resolved message"], FOLLOWED)
CYCLE: Cost = {kind: sum(cost.get(kind, 0) for cost in _FOLLOWED_UP) for kind in "RWPGUD"}
"""claimWork and reportCompleted, with all that follows."""


class _Bare:
    """Requests of one process."""

    def __init__(self, connection_string: str, queue: str, session: aiohttp.ClientSession) -> None:
        endpoints, credential = parse_connection_string(connection_string)
        name, key = credential.named_key
        until = datetime.now(UTC) + timedelta(hours=2)
        self._tables = endpoints.table
        self._table_sas = table_sas(
            AzureNamedKeyCredential(name, key),
            TableResources(service=True, object=True),
            TablePermissions(read=True, write=True, delete=True, add=True, update=True, list=True),
            until,
        )
        self._messages = f"{endpoints.queue}/{queue}/messages"
        self._polled = f"{endpoints.queue}/{queue}{POLLED}/messages"
        self._queue_sas = generate_account_sas(
            name,
            key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions(read=True, write=True, delete=True, add=True, update=True, process=True, list=True),
            until,
        )
        self._session = session
        self._writes = 0
        self._held: list[tuple[str, str]] = []

    async def make(self, kind: str) -> None:
        """One request of a kind, as `tools.bench.budgets` has them."""
        match kind:
            case "R":
                url = f"{self._tables}/{NAME}(PartitionKey='row',RowKey='row')?{self._table_sas}"
                await self._send("GET", url, headers=_HEADERS)
            case "W":
                await self._write()
            case "P":
                await self._send("POST", f"{self._messages}?visibilitytimeout=3600&{self._queue_sas}", data=_MESSAGE)
            case "G":
                await self._send("GET", f"{self._polled}?numofmessages=1&visibilitytimeout=1&{self._queue_sas}")
            case "U" | "D":
                await self._change(kind)

    async def _write(self) -> None:
        """A transaction of three rows, or a single row, in turn: about as many as the calls make of each."""
        self._writes += 1
        partition = uuid4().hex
        if self._writes % 2:
            operations = [Create(key, _ROW) for key in "abc"]
            request = batch.encode(StorageEndpoint.of(self._tables), NAME, partition, operations)
            await self._send(
                "POST", f"{self._tables}/$batch?{self._table_sas}", data=request.content, headers=dict(request.headers)
            )
            return
        headers = {**_HEADERS, "Content-Type": "application/json", "Prefer": "return-no-content"}
        data = encode_entity(partition, "a", _ROW)
        await self._send("POST", f"{self._tables}/{NAME}?{self._table_sas}", data=data, headers=headers)

    async def _change(self, kind: str) -> None:
        """Moves or removes a message; every second time it puts the next one instead, which costs about the same."""
        if not self._held:
            answer = await self._send(
                "POST", f"{self._messages}?visibilitytimeout=3600&{self._queue_sas}", data=_MESSAGE
            )
            found = [answer.partition(f"<{tag}>")[2].partition("<")[0] for tag in ("MessageId", "PopReceipt")]
            self._held.append((found[0], found[1]))
            return
        message_id, receipt = self._held.pop()
        url = f"{self._messages}/{message_id}?popreceipt={quote(receipt, safe='')}&{self._queue_sas}"
        if kind == "U":
            await self._send("PUT", f"{url}&visibilitytimeout=3600", data=_MESSAGE)
        else:
            await self._send("DELETE", url)

    async def _send(
        self, method: str, url: str, data: str | bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> str:
        async with self._session.request(method, url, data=data, headers=headers) as response:
            text = await response.text()
            if response.status >= 300:
                raise RuntimeError(f"the emulator returned {response.status} to a bare {method}: {text[:200]}")
            return text


def calls_a_second(connection_string: str, cost: Cost, seconds: float, processes: int = 2) -> float:
    """How many calls of this cost the emulator serves in a second, if nothing else is done."""
    queue = _prepare(connection_string)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        futures = [pool.submit(_load, connection_string, queue, dict(cost), seconds) for _ in range(processes)]
        return sum(future.result() for future in futures)


def _prepare(connection_string: str) -> str:
    """Makes the table with its row, and two queues, one with messages to take. Returns the name of the other."""
    with TableServiceClient.from_connection_string(connection_string) as service:
        table = service.create_table_if_not_exists(NAME)
        table.upsert_entity({"PartitionKey": "row", "RowKey": "row", "text": json.dumps("x" * 1000)})
    name = f"{NAME}-{uuid4().hex}"
    with QueueServiceClient.from_connection_string(connection_string) as queues:
        queues.create_queue(name)
        polled = queues.create_queue(f"{name}{POLLED}")
        for _ in range(POLLED_MESSAGES):
            polled.send_message("e" * 200)
    return name


def _load(connection_string: str, queue: str, cost: dict[str, float], seconds: float) -> float:
    return asyncio.run(_load_for(connection_string, queue, cost, seconds))


async def _load_for(connection_string: str, queue: str, cost: Mapping[str, float], seconds: float) -> float:
    done = 0
    kinds = [kind for kind, count in cost.items() for _ in range(round(count))]
    async with aiohttp.ClientSession() as session:
        bare = _Bare(connection_string, queue, session)
        started = time.monotonic()

        async def call_again() -> None:
            nonlocal done
            while time.monotonic() - started < seconds:
                for kind in kinds:
                    await bare.make(kind)
                done += 1

        await asyncio.gather(*(call_again() for _ in range(AT_ONCE)))
        return done / (time.monotonic() - started)
