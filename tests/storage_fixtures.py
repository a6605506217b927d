"""Storage for a test: an account of its own on Azurite, and the in-memory twin."""

from collections.abc import AsyncIterator

import pytest

from shared.store.connection import AzureStorage
from shared.store.interface import Storage
from tests.parts.twin import MemoryStorage, VirtualClock
from tests.promises.azurite.rounds import Rounds
from tests.storage_accounts import own_connection_string
from tools.local.azurite import Azurite


@pytest.fixture
async def azure_account(azurite: Azurite) -> AsyncIterator[AzureStorage]:
    """Yields an account on Azurite, of this test alone."""
    async with AzureStorage.from_connection_string(own_connection_string(azurite)) as account:
        yield account


@pytest.fixture
async def storage_in_rounds(azurite: Azurite) -> AsyncIterator[Storage]:
    """Storage as in `azure_storage`, with which the depth of a call can be counted."""
    rounds = Rounds()
    async with AzureStorage.from_connection_string(
        own_connection_string(azurite), exchange=rounds.exchange, transport=rounds.transport
    ) as account:
        yield account.storage


@pytest.fixture
def azure_storage(azure_account: AzureStorage) -> Storage:
    """Returns the services of `azure_account`."""
    return azure_account.storage


@pytest.fixture
def twin() -> MemoryStorage:
    """Returns an empty in-memory account on a clock of its own, which stands still until it is advanced."""
    return MemoryStorage(VirtualClock())
