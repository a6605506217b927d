"""Fixtures that every test may use."""

import gc
import sys
from collections.abc import Iterator

import pytest

from tests import programs
from tests.storage_accounts import ACCOUNTS
from tests.storage_fixtures import azure_account as azure_account  # a fixture, as the others here
from tests.storage_fixtures import azure_storage as azure_storage
from tests.storage_fixtures import storage_in_rounds as storage_in_rounds
from tests.storage_fixtures import twin as twin
from tools.local.azurite import Azurite
from tools.local.child import Child

# For the format `iri`, which no schema here has, jsonschema would build a grammar for two seconds in each process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # so the import system says "not there"

Child.spawn = staticmethod(programs.spawn)

gc.disable()
"""While tests are collected: what there is then stays to the end, and each look through it would be in vain."""

pytest_plugins = ("tests.promises.compatibility.plugin", "tests.selection", "tests.reports", "tests.forked")


def pytest_collection_finish() -> None:
    """Freezes what is there by now (thousands of tests, and all modules), so that later garbage collections leave it
    out, and makes these rare: most of what tests have made is garbage by then, and is looked through once."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """Yields an Azurite in memory, one per test process (pytest-xdist worker). Tests use accounts of their own."""
    with Azurite.start(in_memory=True, accounts=ACCOUNTS) as running:
        yield running
