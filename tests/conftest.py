"""Fixtures that every test may use."""

import sys
from collections.abc import Iterator

import pytest

from local.azurite import Azurite
from tests.storage_fixtures import azure_account as azure_account  # a fixture, as the others here
from tests.storage_fixtures import azure_storage as azure_storage
from tests.storage_fixtures import storage_in_rounds as storage_in_rounds
from tests.storage_fixtures import twin as twin

# For the format `iri`, which no schema here has, jsonschema would build a grammar for two seconds in each process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # so the import system says "not there"

pytest_plugins = ("tests.compatibility.plugin", "tests.selection")


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """An Azurite in memory, one per test process (pytest-xdist worker). Tests use names of their own in it."""
    with Azurite.start(in_memory=True) as running:
        yield running
