"""What the sample project adds to taskgraph."""

from importlib import import_module
from typing import Any


def register(graph_config: Any) -> None:
    """Registers the project's additions; taskgraph calls it before it generates anything."""
    import_module("sample_taskgraph.transforms.commands")
