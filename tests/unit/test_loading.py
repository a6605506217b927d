"""The index of the functions loads no SDK, which would be a third of a start: they come beside the first calls."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from local import settings_docs, state

SDKS = (
    "aiohttp",
    "azure.data.tables",
    "azure.identity",
    "azure.servicebus",
    "azure.storage.blob",
    "azure.storage.queue",
    "cryptography",
    "jwt",
    "opentelemetry",
)


OTHERS_AT_MOST = 510
"""Modules that are not ours: Python's, those of azure-functions and what it needs, pydantic's. 477 on Python 3.11."""
_INDEX = "import functions.loading, sys; functions.loading.load_sdks = lambda settings: None; import function_app;"


def test_the_index_needs_no_sdk() -> None:
    assert run(f"{_INDEX} print(*({set(SDKS)!r} & sys.modules.keys()))") == []


def test_the_index_loads_few_modules() -> None:
    """A new one of another package costs a millisecond or two of each start: aiohttp had brought 92, settings 60."""
    ours = "('functions', 'shared', 'function_app')"
    others = run(f"{_INDEX} print(*(name for name in sys.modules if name.partition('.')[0] not in {ours}))")
    assert len(others) <= OTHERS_AT_MOST, sorted(others)


@pytest.mark.parametrize(
    ("changes", "identity"),
    [({}, []), ({"STORAGE_CONNECTION_STRING": "", "STORAGE_ACCOUNT_NAME": "account"}, ["azure.identity"])],
    ids=["keys", "identity"],
)
def test_the_sdks_are_loaded_beside(changes: dict[str, str], identity: list[str]) -> None:
    script = (
        "import sys; from functions.loading import load_sdks; from shared.base.settings import load_settings;"
        f"load_sdks(load_settings()).join(); print(*sorted({set(SDKS)!r} & sys.modules.keys()))\n"
        "import gc; assert gc.get_freeze_count() > 10_000"
    )
    wanted = ["aiohttp", "azure.servicebus", "azure.storage.blob", "azure.storage.queue", "cryptography"]
    assert run(script, **changes) == sorted([*identity, *wanted])


def run(script: str, **changes: str) -> list[str]:
    """The words that a process prints which has the settings of an example, but for these."""
    environment = {**os.environ, **settings_docs.EXAMPLE_VALUES, **changes}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=state.ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()
