"""Files that are used as they are: by the Functions host, by containers, by the example of virtual machines."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml  # type: ignore[import-untyped]  # comes without types

from tests.infra.kept.deployed import described
from tests.infra.kept.differences import different, leaves, listed
from tests.infra.test_virtual_machines import deployed
from tools.local.state import ROOT

DOCUMENTS = ("host.json", "tools/compose.yaml", ".devcontainer/devcontainer.json", ".github/dependabot.yml")


def text() -> str:
    """All of it."""
    parts = []
    for name in DOCUMENTS:
        parts += [f"## {name}\n", *(f"    {path} = {value}\n" for path, value in leaves(_read(name)))]
    parts += ["## worker/Dockerfile\n", *(f"    {line}\n" for line in _instructions())]
    machines, spot = described(deployed()), described(deployed(spot=True))
    parts += ["## virtual machines\n", *listed(machines), "## spot machines: what differs\n"]
    return "".join([*parts, *listed(different(machines, spot))])


def _read(name: str) -> Any:
    text = (ROOT / name).read_text()
    return (
        json.loads(re.sub(r"^ *//.*$", "", text, flags=re.MULTILINE)) if name.endswith("json") else yaml.safe_load(text)
    )


def _instructions() -> list[str]:
    """What the worker's image is made by, without comments, each on a line."""
    lines = (line for line in (ROOT / "worker" / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    return [line for line in re.sub(r" *\\\n *", " ", "\n".join(lines)).splitlines() if line]
