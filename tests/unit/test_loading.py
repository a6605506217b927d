"""The index of the functions loads no SDK, which would be a third of a start: they come beside the first calls."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from local import settings_docs, state

SDKS = (
    "azure.data.tables",
    "azure.identity",
    "azure.servicebus",
    "azure.storage.blob",
    "azure.storage.queue",
    "cryptography",
    "jwt",
    "opentelemetry",
)


def test_the_index_needs_no_sdk() -> None:
    script = (
        "import functions.loading; functions.loading.load_sdks = lambda settings: None;"
        f"import function_app, sys; print(*({set(SDKS)!r} & sys.modules.keys()))"
    )
    assert run(script) == []


@pytest.mark.parametrize(
    ("changes", "identity"),
    [({}, []), ({"STORAGE_CONNECTION_STRING": "", "STORAGE_ACCOUNT_NAME": "account"}, ["azure.identity"])],
    ids=["keys", "identity"],
)
def test_the_sdks_are_loaded_beside(changes: dict[str, str], identity: list[str]) -> None:
    script = (
        "import sys; from functions.loading import load_sdks; from shared.settings import load_settings;"
        f"load_sdks(load_settings()).join(); print(*sorted({set(SDKS)!r} & sys.modules.keys()))"
    )
    wanted = ["azure.servicebus", "azure.storage.blob", "azure.storage.queue", "cryptography"]
    assert run(script, **changes) == sorted([*identity, *wanted])


def run(script: str, **changes: str) -> list[str]:
    """The words that a process prints which has the settings of an example, but for these."""
    environment = {**os.environ, **settings_docs.EXAMPLE_VALUES, **changes}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=state.ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()
