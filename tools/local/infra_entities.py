"""Writes infra/entities.json, what the templates make in Azure, from the code: `python -m tools.local.infra_entities`.

A test fails when the file differs from what this writes.
"""

import json

from tools.local import entities
from tools.local.state import ROOT

FILE = ROOT / "infra" / "entities.json"

PLATFORM_CONTAINERS = ("deployments",)
"""Containers in which Azure keeps the package that it runs."""

HOST_CONTAINERS = ("azure-webjobs-hosts", "azure-webjobs-secrets")
"""Containers of the Functions host's leases and keys: the app may write only in containers that are named."""


def document() -> str:
    """Returns the names, by kind."""
    names = {
        "tables": entities.TABLES,
        "queues": entities.QUEUES,
        "containers": entities.CONTAINERS,
        "hostContainers": HOST_CONTAINERS,
        "platformContainers": PLATFORM_CONTAINERS,
        "topics": entities.TOPICS,
    }
    return json.dumps(names, indent=2) + "\n"


def main() -> None:
    """Writes the file."""
    FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
