"""What a task asks for, in the shape of generic-worker's payload, which taskgraph writes.

The queue does not look into `payload`, so the worker validates it by payload.schema.json, and lists what is wrong. What
generic-worker does and this worker does not is accepted where it is off or empty, and refused with a sentence where it
matters.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs

from worker.context import CACHE_SCOPE, Json, TaskException, may_mount

SCHEMA: Json = json.loads(Path(__file__).with_name("payload.schema.json").read_text(encoding="utf-8"))
LOGS = {"live": "public/logs/live.log", "backing": "public/logs/live_backing.log"}
"""Names of the log, where the payload has none."""
MOST_PROBLEMS = 20
"""What is named of all that is wrong."""


_VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA, validate_formats=True)


def parse(task: Any, *, most_run_time: float | None = None) -> Json:
    """Returns a task's payload in one form: lists of commands, artifacts and names of the log, with all defaults.
    `most_run_time`: seconds, the worker's limit. Raises TaskException, one reason a line."""
    payload = task["payload"]
    try:
        problems = [_reason(each) for each in itertools.islice(_VALIDATOR.iter_errors(payload), MOST_PROBLEMS + 1)]
    except ValueError as problem:  # it is nested too deeply
        problems = [f"payload: {problem}"]
    if not problems:
        problems = list(itertools.islice(_contradictions(task, payload, most_run_time), MOST_PROBLEMS + 1))
    if problems:
        more = ["…"] if len(problems) > MOST_PROBLEMS else []
        raise TaskException("malformed-payload", "\n".join(problems[:MOST_PROBLEMS] + more))
    command, artifacts = payload["command"], payload.get("artifacts", [])
    if isinstance(artifacts, dict):
        artifacts = [{"type": "file", "name": name, "path": path} for name, path in artifacts.items()]
    features = {"liveLog": True, "backingLog": True, "taskclusterProxy": False, **payload.get("features", {})}
    names = {**LOGS, **payload.get("logs", {})}
    return {
        "env": {},
        "mounts": [],
        **payload,
        "command": [command] if isinstance(command[0], str) else command,
        "artifacts": artifacts,
        "onExitStatus": {"retry": [], "purgeCaches": [], **payload.get("onExitStatus", {})},
        "features": features,
        "logs": [names[kind] for kind in LOGS if features[f"{kind}Log"]],
    }


def _contradictions(task: Any, payload: Any, most_run_time: float | None) -> Iterator[str]:
    """Returns what the schema does not see: what the payload needs of the rest of the definition."""
    caches: set[str] = set()
    for number, mount in enumerate(payload.get("mounts", [])):
        where, cache = f"payload.mounts[{number}]", mount.get("cacheName")
        if cache is not None and not may_mount(task.get("scopes", ()), cache):
            yield f"{where}: the task needs the scope {CACHE_SCOPE}{cache}"
        if cache in caches:
            yield f"{where}: the cache {cache} is mounted already"
        caches |= {cache} if cache is not None else set()
        other = mount.get("content", {}).get("taskId")
        if other is not None and other not in task.get("dependencies", ()):
            yield f"{where}: task.dependencies must include {other}"
    if most_run_time is not None and payload.get("maxRunTime", 0) > most_run_time:
        yield f"payload.maxRunTime must not exceed this worker's limit of {most_run_time:g} s"


def _reason(error: jsonschema_rs.ValidationError) -> str:
    """Returns one problem in words: where, and what."""
    path = [f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.instance_path]
    rule = list(error.schema_path)
    if rule[-1] in ("const", "maxItems"):
        message = "this worker cannot do that, generic-worker can (worker/README.md)"
    else:
        message = "must be a path inside the task's folder" if rule[-2:] == ["path", "pattern"] else error.message
    return f"payload{''.join(path)}: {message}"
