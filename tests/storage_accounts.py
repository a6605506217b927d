"""Accounts on Azurite for tests, each of which has its own."""

from __future__ import annotations

from tools.local.azurite import Azurite, storage_connection_string

ACCOUNTS = [f"account{number}" for number in range(800)]
"""Names of accounts, as many as tests of one process need; with their keys, an environment variable holds 1,300."""
_unused = iter(ACCOUNTS)


def own_account() -> str:
    """Returns the name of an account that nothing has used yet, of an Azurite that was started with `ACCOUNTS`."""
    return next(_unused)


def own_connection_string(azurite: Azurite) -> str:
    """Returns the connection string of such an account."""
    return storage_connection_string(azurite.ports, own_account())
