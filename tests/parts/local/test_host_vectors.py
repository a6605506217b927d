"""Raw requests: what the local host makes of each is what Microsoft's host was recorded to make of it."""

import os
from pathlib import Path

from tests.parts.local.host_process import running_host
from tests.parts.local.vectors import VECTORS, differences
from tools.local.azurite import Azurite
from tools.local.stack import HOST_MODULE
from tools.local.state import ROOT

CORE_TOOLS = {"path: admin status", "path: admin functions", "path: webhooks"}
"""Requests whose answers differ where Core Tools serve (`./dev host-check`): they ask for no keys."""
_NAMED = "| Request | Recorded | Local host |"


def named() -> set[str]:
    """Returns the requests of the table in docs/functions-host.md that says where the local host differs."""
    lines = iter((ROOT / "docs" / "functions-host.md").read_text().splitlines())
    for line in lines:
        if line == _NAMED:
            next(lines)
            return {row.split("|")[1].strip().strip("`") for row in iter(lambda: next(lines), "")}
    raise AssertionError("there is no such table")


def test_no_answer_differs_that_is_not_in_the_documents_table(azurite: Azurite, tmp_path: Path) -> None:
    with running_host(azurite, tmp_path, "--core-tools-paths") as host:
        found = {vector.name: differences(vector, host.port) for vector in VECTORS}
    differing = {name for name, fields in found.items() if fields}
    assert differing == (CORE_TOOLS if HOST_MODULE in os.environ else named()), found
