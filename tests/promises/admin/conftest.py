"""A stack for the administrator's commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.local.stacks import free_ports
from tests.promises.admin.operators import Operator
from tools.local import state
from tools.local.stack import Stack, StackOptions

SETTINGS = {"LONG_POLL_SECONDS": "2"}
FRONT = 15
"""Port of what stands in front of a host, relative to the host's."""


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """Yields a running stack for the tests of this folder, which use pools of names of their own in it."""
    yield from started(StackOptions(free_ports(), in_memory=True, app_settings=SETTINGS))


@pytest.fixture
def operator(stack: Stack, tmp_path: Path) -> Operator:
    """Returns an operator at the running stack."""
    return Operator(stack, tmp_path)


@pytest.fixture(scope="package")
def fronted() -> Iterator[Stack]:
    """Yields a stack whose root URL is that of a front end that tests put there: so signatures are good behind it."""
    ports = free_ports()
    root_url = f"http://127.0.0.1:{ports.api + FRONT}"
    yield from started(StackOptions(ports, in_memory=True, app_settings=SETTINGS, root_url=root_url))


def started(options: StackOptions) -> Iterator[Stack]:
    try:
        with Stack.start(options) as running:
            yield running
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)
