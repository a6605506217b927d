"""The storage account that a deployment keeps its state in, for what no API offers: checks, repairs, backups.

`STORAGE_ACCOUNT_NAME` with the identity that `az login` gives (it needs the data roles that `operatorPrincipalId` of
the templates assigns), or a connection string.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from shared.base.concurrency import Lookups
from shared.index.entries import Index
from shared.queue.groups.store import GroupStore
from shared.queue.pools.rows import PoolStore
from shared.queue.tasks.definitions import Definitions
from shared.queue.tasks.edges import GroupEdges
from shared.queue.tasks.known import KnownStatuses
from shared.queue.tasks.messages import Messages
from shared.queue.tasks.rows import TaskStore
from shared.runtime import Runtime
from shared.store.connection import AzureStorage, Endpoints
from shared.store.expiring import ExpiryStore
from shared.store.interface import Storage, StorageUnavailable
from shared.store.wire import NoAnswer
from tools.admin.connection import LOCALLY, reason
from tools.admin.output import fail

CONNECTION_STRINGS = ("STORAGE_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING")
SETTLED = timedelta(minutes=15)
"""A message that is present for this long is not being worked on: that of a dead instance hides for 10 minutes."""
_CACHE_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Records:
    """Everything that an operator looks at."""

    storage: Storage
    runtime: Runtime
    tasks: TaskStore
    groups: GroupStore
    edges: GroupEdges
    pools: PoolStore
    messages: Messages
    expiry: ExpiryStore
    index: Index
    settled: timedelta = SETTLED

    @classmethod
    def of(cls, storage: Storage, runtime: Runtime, deadline_delay: timedelta = timedelta(minutes=1)) -> Records:
        """Returns the records in a storage account. No pending message is ever signed here, so no keys are needed."""
        expiry, known = ExpiryStore(storage, runtime.now), KnownStatuses(runtime.now)
        return cls(
            storage=storage,
            runtime=runtime,
            tasks=TaskStore(storage, Definitions(storage.tables, _CACHE_BYTES, runtime.now), runtime.slugid, known),
            groups=GroupStore(storage),
            edges=GroupEdges(storage),
            pools=PoolStore(storage, runtime, known),
            messages=Messages(storage, runtime, [], deadline_delay),
            expiry=expiry,
            index=Index(storage, expiry, runtime, Lookups()),
        )


@asynccontextmanager
async def open_account(environment: Mapping[str, str] = os.environ) -> AsyncIterator[AzureStorage]:
    """Yields the account that the environment names. Ends the command with a message when it names none."""
    text = next((environment[name] for name in CONNECTION_STRINGS if environment.get(name)), None)
    if text is not None:
        try:
            account = AzureStorage.from_connection_string(text)
        except ValueError as error:
            fail(str(error))
        async with account:
            yield account
        return
    name = environment.get("STORAGE_ACCOUNT_NAME")
    if not name:
        fail(
            "STORAGE_ACCOUNT_NAME is not set: the storage account of the deployment (then your `az login` is used). "
            + LOCALLY
        )
    from azure.identity.aio import DefaultAzureCredential  # half a second, which a connection string does not need

    async with DefaultAzureCredential() as credential, AzureStorage(Endpoints.of_account(name), credential) as account:
        yield account


def with_account(work: Callable[[AzureStorage], Awaitable[T]]) -> T:
    """Does the work on the account, in an event loop of its own. A failing account ends the command."""

    async def run() -> T:
        async with open_account() as account:
            return await work(account)

    try:
        return asyncio.run(run())
    except StorageUnavailable as failure:
        fail(_explained(failure))


def _explained(failure: StorageUnavailable) -> str:
    match failure.__cause__:
        case ClientAuthenticationError(response=None):
            return "no one is signed in who could read the storage account: run `az login`"
        case ServiceRequestError() as error:
            return f"the storage account cannot be reached: {reason(error)}"
        case NoAnswer(__cause__=OSError() as error) as no_answer:
            return f"the storage account cannot be reached: {str(error) or no_answer}"
        case _:
            return f"the storage account does not answer or refuses: {failure}"


def with_records(work: Callable[[Records], Awaitable[T]]) -> T:
    """Does what `with_account` does, for the records in it."""
    return with_account(lambda account: work(Records.of(account.storage, Runtime())))
