"""What a task asks for. The queue does not look into `payload`, so the worker says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARTIFACT = re.compile(r"[\x20-\x7e]{1,1024}")


class MalformedPayload(ValueError):
    """The payload cannot be run, now or in another run; the message says why, for the one who wrote it."""


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A payload that can be run."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    max_run_time: float | None = None
    """Seconds after which the command is killed, and has failed."""
    artifacts: Mapping[str, PurePosixPath] = field(default_factory=dict)
    """Name to path, in the task's folder."""


def parse(value: Any) -> Payload:
    """The payload of a definition. Raises MalformedPayload that lists all that is wrong."""
    if not isinstance(value, dict):
        raise MalformedPayload("payload must be an object")
    problems = [f"payload.{name} is not known" for name in value if name not in _KNOWN]
    command = _command(value.get("command"), problems)
    env = _env(value.get("env", {}), problems)
    max_run_time = _max_run_time(value.get("maxRunTime"), problems)
    artifacts = _artifacts(value.get("artifacts", {}), problems)
    if problems:
        raise MalformedPayload("\n".join(problems))
    return Payload(command=command, env=env, max_run_time=max_run_time, artifacts=artifacts)


_KNOWN = ("command", "env", "maxRunTime", "artifacts")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _command(value: Any, problems: list[str]) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(map(_is_text, value)) or not value[0]:
        problems.append("payload.command must be a list of strings, the program first")
        return ()
    return tuple(value)


def _env(value: Any, problems: list[str]) -> dict[str, str]:
    if not isinstance(value, dict):
        problems.append("payload.env must be an object")
        return {}
    problems += [f"payload.env: {name!r} cannot name a variable" for name in value if not _VARIABLE.fullmatch(name)]
    problems += [f"payload.env.{name} must be a string" for name, text in value.items() if not _is_text(text)]
    return value


def _max_run_time(value: Any, problems: list[str]) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        problems.append("payload.maxRunTime must be a number of seconds above 0")
        return None
    return float(value)


def _artifacts(value: Any, problems: list[str]) -> dict[str, PurePosixPath]:
    if not isinstance(value, dict):
        problems.append("payload.artifacts must be an object of name to path")
        return {}
    artifacts: dict[str, PurePosixPath] = {}
    for name, path in value.items():
        if not _ARTIFACT.fullmatch(name):
            problems.append(f"payload.artifacts: {name!r} cannot name an artifact")
        elif not _is_text(path) or not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            problems.append(f"payload.artifacts: the path of {name!r} must lead to a file in the task's folder")
        else:
            artifacts[name] = PurePosixPath(path)
    return artifacts
