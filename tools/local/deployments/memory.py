"""Whether an instance has the memory for all that it may hold at a time: the sum that docs/scaling.md explains.

Standard library only: azd's hook computes it before anything is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.base import bounds
from tools.local.deployments.description import INFRA, Parameters

MEBIBYTE = 1 << 20
HOST = 170 * MEBIBYTE
"""Bytes of Microsoft's host at rest, measured."""
WORKER = 110 * MEBIBYTE
"""Bytes of the Python worker with the app at rest, measured."""
REMEMBERED = 30 * MEBIBYTE
"""Bytes of what a process remembers of tasks, clients and roles (design 2.8), beside definitions."""
COPIES: Mapping[str, int] = {"calls": 8, "uploads": 12}
"""Bytes in memory for each byte of a body while its call is under way, by what the app serves. The host holds a body
some seven times, and the worker once; an upload, which is read and sent on, takes five times its size of the worker.
"""
HOST_LIMIT = 104_857_600
"""Bytes of a body that the host takes unless FUNCTIONS_REQUEST_BODY_SIZE_LIMIT says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance of one of the apps: its memory, the calls that the platform gives it at a time, its app settings."""

    memory_mb: int
    concurrency: int
    settings: Mapping[str, str]

    def parts(self) -> dict[str, int]:
        """Returns what an instance may have in memory at a time, in bytes by the kind of thing."""
        serves = self.settings.get("SERVES", "") or "calls"
        limit = int(self.settings.get("FUNCTIONS_REQUEST_BODY_SIZE_LIMIT", "") or HOST_LIMIT)
        app = {
            "definitions that are kept": int(self.settings["DEFINITION_CACHE_BYTES"]),
            "bodies and definitions in use": bounds.IN_HAND,
            "what else is remembered": REMEMBERED,
        }
        return {
            "the host": HOST,
            "the worker": WORKER,
            **(app if serves == "calls" else {}),
            f"{COPIES[serves]} × {self.concurrency} bodies of {limit / MEBIBYTE:.4g} MiB": (
                COPIES[serves] * self.concurrency * limit
            ),
        }

    def shortage(self) -> str | None:
        """Returns what is wrong, if an instance may need more memory than it has."""
        parts = self.parts()
        needed = sum(parts.values())
        if needed <= self.memory_mb * MEBIBYTE:
            return None
        terms = " + ".join(f"{-(-size // MEBIBYTE)} ({name})" for name, size in parts.items())
        return f"an instance of {self.memory_mb} MB may need {-(-needed // MEBIBYTE)}: {terms}"


def shortages(parameters: Parameters) -> Iterator[str]:
    """Yields what is wrong with the memory of the apps that a description makes."""
    profile = _read(f"profiles/{parameters.get('profile', 'small')}.json")
    scale = merged(profile, parameters.get("profileOverrides", {}))
    defaults = _read("settings.json")
    apps = {"calls": merged(scale, {"settings": parameters.get("settingOverrides", {})})}
    if parameters.get("uploadsApp"):
        apps["uploads"] = merged(scale, scale["uploads"])
    for serves, values in apps.items():
        instance = Instance(
            memory_mb=values["instanceMemoryMB"],
            concurrency=values["httpConcurrency"],
            settings={**defaults, **values["settings"], "SERVES": serves},
        )
        if shortage := instance.shortage():
            yield f"the app that serves {serves}: {shortage}"


def _read(name: str) -> Any:
    return json.loads((INFRA / name).read_text(encoding="utf-8"))


def merged(value: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merges objects at all depths, as `union` of a template does."""
    both = {**value, **changes}
    return {
        name: merged(value[name], each) if isinstance(each, Mapping) and isinstance(value.get(name), Mapping) else each
        for name, each in both.items()
    }
