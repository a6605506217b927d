"""Storage for a test: an account on Azurite under names of its own, and the in-memory twin."""

import uuid
from collections.abc import AsyncIterator

import pytest

from shared.store.connection import AzureStorage
from shared.store.interface import Storage
from tests.parts.twin import MemoryStorage, VirtualClock
from tests.promises.azurite.rounds import Rounds
from tools.local.azurite import Azurite


@pytest.fixture
async def azure_account(azurite: Azurite) -> AsyncIterator[AzureStorage]:
    """An account on Azurite. All its names have a prefix of this test alone."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    async with AzureStorage.from_connection_string(azurite.connection_string, prefix=prefix) as account:
        yield account


@pytest.fixture
async def storage_in_rounds(azurite: Azurite) -> AsyncIterator[Storage]:
    """As `azure_storage`, where the depth of a call can be counted."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    rounds = Rounds()
    async with AzureStorage.from_connection_string(
        azurite.connection_string, prefix=prefix, exchange=rounds.exchange, transport=rounds.transport
    ) as account:
        yield account.storage


@pytest.fixture
def azure_storage(azure_account: AzureStorage) -> Storage:
    """The services of `azure_account`."""
    return azure_account.storage


@pytest.fixture
def twin() -> MemoryStorage:
    """An empty in-memory account on a clock of its own, which stands still until it is advanced."""
    return MemoryStorage(VirtualClock())
