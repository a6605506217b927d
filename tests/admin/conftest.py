"""A stack for the administrator's commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from local import state
from local.stack import Stack, StackOptions
from tests.local.stacks import free_ports


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """A running stack, one for the tests of this folder. Tests use pools of names of their own in it."""
    options = StackOptions(free_ports(), in_memory=True, app_settings={"LONG_POLL_SECONDS": "2"})
    try:
        with Stack.start(options) as running:
            yield running
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)
