"""The index of the functions loads no SDK, which would be a third of a start: they come beside the first calls."""

from __future__ import annotations

import os
import subprocess
import sys

from tools.local import settings_docs, state

SDKS = (
    "aiohttp",
    "azure.data.tables",
    "azure.identity",
    "azure.servicebus",
    "azure.storage.blob",
    "azure.storage.queue",
    "cryptography",
    "jwt",
    "opentelemetry.sdk",
)


OTHERS_AT_MOST = 476
"""The most modules of others that may be loaded besides those of a bare Python; 465 on 3.11."""
BESIDE = ["aiohttp", "azure.servicebus", "azure.storage.blob", "azure.storage.queue", "cryptography"]
_LOAD = (
    "load(load_settings()).join(); import gc; assert gc.get_freeze_count() > 10_000;"
    f"print(*sorted({set(SDKS)!r} & sys.modules.keys()))"
)
_WITH_AN_IDENTITY = "os.environ.update(STORAGE_CONNECTION_STRING='', STORAGE_ACCOUNT_NAME='account')"


def test_the_index_loads_few_modules_and_no_sdk_and_they_are_loaded_beside() -> None:
    """The index of the functions loads few modules, and no SDK; SDKs are loaded in parallel, one more for a managed
    identity. A further module costs a millisecond or two of each start: aiohttp had brought 92, settings 60."""
    ours = "('functions', 'shared', 'function_app', 'coverage')"
    needed, others, beside, with_identity = run(
        "import sys; before = {*sys.modules}; import functions.loading; load = functions.loading.load_sdks;"
        "functions.loading.load_sdks = lambda _: None; import function_app;"
        f"print(*({set(SDKS)!r} & sys.modules.keys()));"
        f"print(*(name for name in sys.modules.keys() - before if name.partition('.')[0] not in {ours}));"
        f"import os; from shared.base.settings import load_settings; {_LOAD}; {_WITH_AN_IDENTITY}; {_LOAD}"
    )
    assert needed == []
    assert len(others) <= OTHERS_AT_MOST, sorted(others)
    assert beside == BESIDE
    assert with_identity == sorted(["azure.identity", *BESIDE])


def run(script: str) -> list[list[str]]:
    """Returns the words of each line that a process prints which has the settings of an example."""
    environment = {**os.environ, **settings_docs.EXAMPLE_VALUES}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=state.ROOT, env=environment, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]
