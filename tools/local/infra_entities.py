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
"""Containers for the Functions host's own leases and keys. They are declared, since the app may write in named
containers only."""


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
    """Write the file."""
    FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
