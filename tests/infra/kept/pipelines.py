"""What each event makes the pipelines do: jobs and steps in their order, what goes into them, what they call."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # comes without types

from tests.infra.kept.differences import different, leaves, listed
from tests.infra.workflow_expressions import filled_in, holds
from tools.local.state import ROOT

FOLDER = ROOT / ".github" / "workflows"
TOOLS = ("az", "azcopy", "azd", "date", "docker", "find", "gh", "git", "jq", "npm", "python", "sha256sum")
_PLAY = """
called() {
    case "$1 $2" in
    "sha256sum --check") echo "$* < $(cat)" >> "$CALLS" ;;
    *) echo "$*" >> "$CALLS" ;;
    esac
    case "$1 $2" in
    "azd env") echo "($4)" ;;
    "date --utc" | "jq "*) echo "($1)" ;;
    "sha256sum "*) echo "($1)  queue.zip" ;;
    "git diff") return 1 ;;
    esac
}
"""
_FILE = """#!/bin/sh
echo "$0 $*" >> "$CALLS"
case $0 in *.sh) echo "with $QUEUE_APP_VERSION, $QUEUE_APP_PUBLIC_ACCESS" >> "$CALLS" ;; esac
"""
ALWAYS = {
    "vars.QUEUE_STAGING": "true",
    "vars.QUEUE_DOCS": "true",
    "vars.QUEUE_BACKUP_ACCOUNT": "(QUEUE_BACKUP_ACCOUNT)",
    "vars.STORAGE_ACCOUNT_NAME": "(STORAGE_ACCOUNT_NAME)",
    "github.event.repository.private": False,
    "needs.ci.result": "success",
}
BY_HAND = {"github.event_name": "workflow_dispatch", "inputs.environment": "(environment)"}
RELEASED = {"github.event_name": "release", "github.event.release.tag_name": "v1.2.3", "needs.ci.result": "skipped"}
EVENTS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "backup.yml": {"schedule": {}, "schedule, of no account": {"vars.QUEUE_BACKUP_ACCOUNT": None}},
    "ci.yml": {
        "pull_request": {"github.event_name": "pull_request"},
        "schedule": {"github.event_name": "schedule"},
        "cancelled": {"github.event_name": "push", "cancelled": True},
    },
    "deploy.yml": {
        "push": {"github.event_name": "push"},
        "push, without staging": {"github.event_name": "push", "vars.QUEUE_STAGING": None},
        "push, tests fail": {"github.event_name": "push", "needs.ci.result": "failure"},
        "release": RELEASED,
        "release of a private repository": {**RELEASED, "github.event.repository.private": True},
        "by hand": {**BY_HAND, "inputs.confirm": "(confirm)", "vars.QUEUE_RUNNER": "(runner)"},
        "by hand, a run": {**BY_HAND, "inputs.run_id": "7", "inputs.sha256": "(sha)", "needs.ci.result": "skipped"},
        "by hand, a release": {**BY_HAND, "inputs.release": "v1.2.3", "needs.ci.result": "skipped"},
        "cancelled": {"github.event_name": "push", "cancelled": True},
    },
    "docs.yml": {"push": {"github.event_name": "push"}, "release": RELEASED, "no site": {"vars.QUEUE_DOCS": None}},
    "pin-images.yml": {"by hand": BY_HAND},
    "release.yml": {
        "tag": {"github.ref_name": "v1.2.3"},
        "tag of a private repository": {"github.ref_name": "v1.2.3", "github.event.repository.private": True},
    },
}
_SAID = re.compile(
    r"(github\.(token|actor|ref_name|run_id|ref|sha|workflow)|jobs\.|matrix\.|needs\.|steps\.|vars\.AZURE_).*"
)


class _Given(dict[str, object]):
    """What expressions read: what an event sets, and for what always has some value its name."""

    def __missing__(self, key: str) -> object:
        return f"({key})" if _SAID.fullmatch(key) else None

    def get(self, key: str, default: object = None) -> object:
        return self[key]


def text() -> str:
    """All of it: for each pipeline the first event whole, of the others what differs from it."""
    parts = []
    for name, events in EVENTS.items():
        document = yaml.safe_load((FOLDER / name).read_text())
        first, *_ = events
        whole: dict[str, list[str]] = {}
        for event, given in events.items():
            done = _done(document, _Given({**ALWAYS, **given}))
            if event == first:
                whole = done
                parts += [f"## {name}: {event}\n", *listed(whole), "\n"]
            else:
                parts += [f"## {name}: {event}: what differs from {first}\n", *listed(different(whole, done)), "\n"]
    return "".join(parts)


def _done(document: dict[Any, Any], given: _Given) -> dict[str, list[str]]:
    """What runs, by job. Of jobs and steps that do not run there is nothing."""
    on = document.get("on") or document[True]  # YAML 1.1 reads the key as true
    rest = {key: value for key, value in document.items() if key not in {"on", True, "jobs", "name"}}
    done = {"the pipeline": list(_lines({"on": on, **rest}, given))}
    for name, job in document["jobs"].items():
        if holds(job.get("if", "!cancelled()"), given):
            steps = [step for step in job.get("steps", []) if holds(step.get("if", "!cancelled()"), given)]
            own = {key: job[key] for key in job.keys() - {"if", "steps"}}
            done[f"job {name}"] = [*_lines(own, given), *_ran(document, job, steps, given)]
    return done


def _lines(value: dict[str, Any], given: _Given) -> Iterator[str]:
    for path, leaf in leaves(dict(sorted(value.items()))):
        yield f"{path} = {filled_in(str(leaf), given)}"


def _ran(document: dict[Any, Any], job: dict[str, Any], steps: list[dict[str, Any]], given: _Given) -> Iterator[str]:
    """The lines of each step: what goes in, and what it called."""
    environment = {**document.get("env", {}), **job.get("env", {})}
    strict = document.get("defaults", {}).get("run", {}).get("shell") == "bash"
    for step, calls in zip(steps, _called(steps, environment, given, strict=strict), strict=True):
        about = {key: step[key] for key in step.keys() - {"if", "run", "name", "uses"}}
        name = step.get("name") or step.get("uses") or "step"
        yield f"{name}:"
        yield from (f"{name}: {line}" for line in (*_lines(about, given), *calls))


def _called(
    steps: list[dict[str, Any]], environment: Mapping[str, Any], given: _Given, *, strict: bool
) -> list[list[str]]:
    """What each step calls, in one shell for all steps of a job: tools are played and do nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (folder / "dev", folder / "infra" / "hooks" / "smoke-test.sh"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_FILE)
            path.chmod(0o755)
        (folder / "dist").mkdir()
        (folder / "dist" / "queue.zip").touch()
        (folder / "dist" / "SHA256SUMS").write_text("(sum)  queue.zip\n")
        (folder / "worker").symlink_to(ROOT / "worker")
        script = [_PLAY, *(f'{tool}() {{ called {tool} "$@"; }}' for tool in TOOLS), f"cd {folder}"]
        options = "-eo pipefail" if strict else "-e"
        for index, step in enumerate(steps):
            if "run" not in step:
                continue
            own = {**environment, **step.get("env", {})}
            (folder / f"{index}.sh").write_text(filled_in(step["run"], given))
            sets = " ".join(shlex.quote(f"{key}={filled_in(str(value), given)}") for key, value in own.items())
            files = f"CALLS={folder}/{index} GITHUB_OUTPUT={folder}/{index}.output"
            script += [f"( export {files} {sets}; set {options}; . ./{index}.sh ) || echo fails >> {index}"]
        subprocess.run(
            ["bash", "-c", "\n".join(script)],
            env={
                "PATH": os.environ["PATH"],
                "RUNNER_TEMP": "(temp)",
                "GITHUB_REPOSITORY": "Team/Queue",
                "GITHUB_STEP_SUMMARY": "/dev/null",
            },
            check=True,
            capture_output=True,
            timeout=60,
        )
        return [[*_read(folder / str(index)), *_outputs(folder / f"{index}.output")] for index in range(len(steps))]


def _outputs(path: Path) -> list[str]:
    return [f"output {line}" for line in _read(path)]


def _read(path: Path) -> list[str]:
    return path.read_text().replace(str(path.parent), ".").splitlines() if path.exists() else []
