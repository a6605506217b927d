"""The texts that are kept, each with what makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.infra.kept import dangers, deployed, hooks, others, pipelines, runbooks

FOLDER = Path(__file__).parent
TEXTS: Mapping[str, Callable[[], str]] = {
    "dangers.txt": dangers.text,
    "deployed.txt": deployed.text,
    "hooks.txt": hooks.text,
    "others.txt": others.text,
    "pipelines.txt": pipelines.text,
    "runbooks.txt": runbooks.text,
}
