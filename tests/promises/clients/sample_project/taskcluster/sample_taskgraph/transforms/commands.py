"""Turns tasks that list shell commands into tasks of generic-worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taskgraph.transforms.base import TransformSequence

transforms = TransformSequence()


@transforms.add
def run_commands(config: Any, tasks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        name = task.pop("name")
        commands = task.pop("commands")
        artifacts = task.pop("artifacts", [])
        task["label"] = f"{config.kind}-{name}"
        task["worker"] = {
            "command": [["/bin/bash", "-cx", command] for command in commands],
            "max-run-time": 600,
            "env": {"NAME": name, **{f"{edge.upper()}_ID": {"task-reference": f"<{edge}>"} for edge in edges(task)}},
            "artifacts": [{"type": "file", "name": path, "path": path} for path in artifacts],
        }
        yield task


@transforms.add
def announce_widely(config: Any, tasks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Adds routes to tasks. If they are more than a task may have, taskgraph adds a task that puts them in the
    index."""
    for task in tasks:
        count = task.pop("routes-to", 0)
        prefix = f"index.{config.graph_config['trust-domain']}.v2.{config.params['project']}"
        task["routes"] = [f"{prefix}.{number}.{task['label']}" for number in range(count)]
        yield task


@transforms.add
def reuse(config: Any, tasks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Makes tasks reusable: they are put in the index, and not built again as long as they are found there."""
    for task in tasks:
        if task.pop("reused", False):
            provisioner = config.graph_config["workers"]["aliases"]["linux"]["provisioner"]
            path = f"{config.graph_config['trust-domain']}.cache.{provisioner}.{task['label']}"
            task["routes"].append(f"index.{path}")
            task["optimization"] = {"index-search": [path]}
        yield task


def edges(task: dict[str, Any]) -> list[str]:
    return sorted(task.get("dependencies", {}))
