"""What the steps of the pipelines run: shell that can be read, variables that are set, files and outputs that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tools.local.state import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
EVERYWHERE = {"CI", "HOME", "PATH", "PWD", "RUNNER_TEMP", "RUNNER_OS"}
"""Variables that every step has; those that begin with GITHUB_ as well."""
_OURS = r"(?:\./dev|infra/hooks/[\w.-]+|\.ci/[\w.-]+)"


def problems(document: dict[Any, Any], other: dict[str, dict[Any, Any]]) -> Iterator[str]:
    """What is wrong with the steps of a workflow; `other` are all workflows by their file's name."""
    uploaded = {
        step["with"]["name"]
        for each in (document, *other.values())
        for _, step in _steps(each)
        if step.get("uses", "").startswith("actions/upload-artifact@")
    }
    for job_name, job in document["jobs"].items():
        yield from (f"{job_name}: {text}" for text in _needed(document, job, other))
        for step in job.get("steps", []):
            known = {*document.get("env", {}), *job.get("env", {}), *step.get("env", {})}
            yield from (f"{job_name}: {text}" for text in _script(step.get("run", ""), known))
            if step.get("uses", "").startswith("actions/download-artifact@") and step["with"]["name"] not in uploaded:
                yield f"{job_name}: no job uploads {step['with']['name']}"


def _steps(document: dict[Any, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, step) for name, job in document["jobs"].items() for step in job.get("steps", [])]


def _needed(document: dict[Any, Any], job: dict[str, Any], other: dict[str, dict[Any, Any]]) -> Iterator[str]:
    """Outputs of other jobs that are declared nowhere, and workflows that do not exist."""
    if "uses" in job and Path(job["uses"]).name not in other:
        yield f"there is no workflow {job['uses']}"
    for name, output in set(re.findall(r"\bneeds\.([\w-]+)\.outputs\.([\w-]+)", str(job))):
        needed = document["jobs"].get(name, {})
        declared = needed.get("outputs", {})
        if "uses" in needed:
            called = other.get(Path(needed["uses"]).name, {})
            on = called.get("on", called.get(True)) or {}
            declared = (on.get("workflow_call") or {}).get("outputs", {})
        if output not in declared:
            yield f"{name} has no output {output}"


def _script(script: str, known: set[str]) -> Iterator[str]:
    if not script:
        return
    plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
    done = subprocess.run(["bash", "-n"], input=plain, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield f"bash cannot read it: {done.stderr.strip()}"
    for context in re.findall(r"\$\{\{\s*((?:github\.(?:event|head_ref|ref_name|actor)|inputs)\b[\w.]*)", script):
        yield f"{context} is put into a script, where it is code: pass it on by env"
    unquoted = re.sub(r"'[^']*'", "", re.sub(r"(?<=\w)'(?=\w)", "", plain))  # without "it's"
    assigned = set(re.findall(r"(?:^|[;&|(\s])(?:export |local )?([A-Za-z_]\w*)=", unquoted))
    assigned |= set(re.findall(r"\b(?:for|read(?: -r)?) ([A-Za-z_]\w*)", unquoted))
    for name in re.findall(r"\$\{?([A-Za-z_]\w*)", unquoted):
        if name not in known | assigned | EVERYWHERE and not name.startswith("GITHUB_"):
            yield f"{name} is not set"
    for file in re.findall(rf"(?<![\w/.]){_OURS}", plain):
        if not (ROOT / file).exists():
            yield f"there is no {file}"
    for command in re.findall(r"\./dev ([a-z-]+)", plain):
        code = (ROOT / "tools" / "local" / "cli.py").read_text()
        if f"def {command.replace('-', '_')}(" not in code and not re.search(rf'(name=|Tool\()"{command}"', code):
            yield f"./dev has no command {command}"


def _load(path: Path) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(path.read_text())
    return document


WORKFLOWS = {path.name: _load(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_steps_run_exists(path: Path) -> None:
    assert list(problems(_load(path), WORKFLOWS)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        (
            "deploy.yml",
            "          infra/hooks/smoke-test.sh",
            "          infra/hooks/smoketest.sh",
            "no infra/hooks/smoketest",
        ),
        ("deploy.yml", '"$SHA256  dist', '"$SHA  dist', "SHA is not set"),
        ("deploy.yml", "RUN_ID: ${{", "RUN: ${{", "RUN_ID is not set"),
        ("release.yml", '--tag "$TAG"', '--tag "${{ github.ref_name }}"', "is code"),
        ("release.yml", "digest=$(jq", "sum=$(jq", "digest is not set"),
        ("deploy.yml", "case $RUN_ID", "case ${{ inputs.run_id }}", "inputs.run_id is put into a script"),
        ("deploy.yml", "          name: package\n", "          name: packages\n", "no job uploads packages"),
        ("deploy.yml", "needs.ci.outputs.sha256", "needs.ci.outputs.digest", "ci has no output digest"),
        ("deploy.yml", "workflows/ci.yml\n", "workflows/tests.yml\n", "no workflow"),
        ("deploy.yml", "exit 1 ;; esac", "exit 1 ;;", "bash cannot read it"),
        ("ci.yml", "./dev package --output", "./dev packages --output", "no command packages"),
        ("ci.yml", "digest=$(sha", "sum=$(sha", "digest is not set"),
    ],
)
def test_a_planted_mistake_in_a_step_is_found(name: str, old: str, new: str, found: str) -> None:
    text = (FOLDER / name).read_text()
    assert old in text
    problem = list(problems(yaml.safe_load(text.replace(old, new)), WORKFLOWS))
    assert any(found in each for each in problem), problem
