"""The pipelines: what they run exists here, what they may do is little, and nothing secret is stored."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from local.state import ROOT
from tests.infra import bicep

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def _load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def _steps(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(name, step) for name, job in _load(path)["jobs"].items() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_little_is_allowed_and_everything_ends(path: Path) -> None:
    document = _load(path)
    assert document["permissions"] == {"contents": "read"}
    for name, job in document["jobs"].items():
        assert "uses" in job or job["timeout-minutes"] <= 60, name
        writes = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        assert writes == ({"id-token"} if name == "deploy" else set()), name
    for name, step in _steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, name
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+", step["uses"]), f"{name}: {step['uses']}"


def test_nothing_secret_is_stored_at_github() -> None:
    for path in FILES:
        text = path.read_text()
        assert "secrets." not in text
        assert not re.search(r"client-secret|creds:|publish-profile|password", text, re.IGNORECASE)


def test_azure_trusts_the_identity_of_the_environment() -> None:
    deploy = _load(FOLDER / "deploy.yml")["jobs"]["deploy"]
    assert deploy["permissions"]["id-token"] == "write"
    assert deploy["environment"]
    login = next(step for _, step in _steps(FOLDER / "deploy.yml") if step.get("uses", "").startswith("azure/login@"))
    assert login["with"].keys() == {"client-id", "tenant-id", "subscription-id"}
    assert "environment:production" in (ROOT / "infra" / "README.md").read_text()


def test_what_is_deployed_is_what_was_tested() -> None:
    ci = (FOLDER / "ci.yml").read_text()
    assert "./dev test --all tests/infra" in ci
    assert "./dev package --output dist" in ci
    deploy = [step.get("run", "") for _, step in _steps(FOLDER / "deploy.yml")]
    order = [
        next(i for i, run in enumerate(deploy) if word in run) for word in ("sha256sum", "provision", "config-zip")
    ]
    assert order == sorted(order)
    assert "--build-remote false" in " ".join(deploy)
    assert any("pip_audit" in step.get("run", "") for _, step in _steps(FOLDER / "ci.yml"))


def _judge(run: dict[str, Any], tmp_path: Path, run_id: str = "7") -> int:
    """The exit code of the step that judges a run whose package is to be deployed again."""
    step = next(step for _, step in _steps(FOLDER / "deploy.yml") if "actions/runs" in step.get("run", ""))
    (tmp_path / "answer.json").write_text(json.dumps(run))
    (tmp_path / "gh").write_text(f'#!/bin/sh\ncat "{tmp_path}/answer.json"\n')
    (tmp_path / "gh").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "owner/queue",
        "RUN_ID": run_id,
    }
    shell = ["bash", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(shell, env=environment, cwd=tmp_path, capture_output=True, check=False).returncode


GOOD_RUN = {
    "event": "push",
    "head_branch": "main",
    "conclusion": "success",
    "path": ".github/workflows/deploy.yml",
    "repository": {"full_name": "owner/queue"},
    "head_repository": {"full_name": "owner/queue"},
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq, which the runners have, is not here")
def test_only_the_package_of_a_successful_push_to_main_is_deployed_again(tmp_path: Path) -> None:
    assert _judge(GOOD_RUN, tmp_path) == 0
    assert _judge(GOOD_RUN, tmp_path, run_id="7/../8") != 0
    for name, value in {
        "event": "pull_request",
        "head_branch": "topic",
        "conclusion": "failure",
        "path": ".github/workflows/other.yml",
        "repository": {"full_name": "other/queue"},
        "head_repository": {"full_name": "fork/queue"},
    }.items():
        assert _judge({**GOOD_RUN, name: value}, tmp_path) != 0, name


def test_a_package_is_compared_with_its_digest_whichever_run_it_is_of() -> None:
    steps = [step for _, step in _steps(FOLDER / "deploy.yml")]
    names = [step.get("name", step.get("uses", "")) for step in steps]
    judge = next(i for i, step in enumerate(steps) if "actions/runs" in step.get("run", ""))
    download = next(i for i, name in enumerate(names) if name.startswith("actions/download-artifact@"))
    check = next(i for i, step in enumerate(steps) if "sha256sum" in step.get("run", ""))
    login = next(i for i, name in enumerate(names) if name.startswith("azure/login@"))
    assert judge < download < check < login
    assert "if" not in steps[check]
    assert steps[judge]["if"] == "${{ inputs.run_id }}"


@pytest.mark.parametrize(
    ("tag", "section", "code"),
    [
        ("v1.2.3", "## [1.2.3] - 2030-01-31", 0),
        ("1.2.3", "## [1.2.3] - 2030-01-31", 1),
        ("v1.2.4", "## [1.2.3] - 2030-01-31", 1),
        ("v1.2.3", "## [1.2.3] - Unreleased", 1),
    ],
)
def test_a_release_is_tagged_with_the_version_of_the_project(tmp_path: Path, tag: str, section: str, code: int) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "queue"\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{section}\n")
    step = next(step for _, step in _steps(FOLDER / "deploy.yml") if "release.tag_name" in str(step.get("env")))
    shell = ["bash", "-eo", "pipefail", "-c", step["run"]]
    environment = {"PATH": os.environ["PATH"], "TAG": tag}
    done = subprocess.run(shell, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == code


def test_inputs_reach_shells_as_variables_only() -> None:
    """What is written into a script by the runner could be a script."""
    for path in FILES:
        for name, step in _steps(path):
            assert "${{ inputs." not in step.get("run", ""), name


def test_paths_and_commands_of_the_repository_exist() -> None:
    for path in FILES:
        for _, step in _steps(path):
            for word in re.findall(r"(?<![\w$/])(?:\./)?((?:infra|tests|local)/[\w./-]+)", step.get("run", "")):
                assert (ROOT / word).exists(), word
            for command in re.findall(r"\./dev (\w+)", step.get("run", "")):
                assert command in {"test", "package"}


def test_variables_are_parameters_of_the_templates() -> None:
    given = (bicep.INFRA / "main.parameters.json").read_text()
    environment = _load(FOLDER / "deploy.yml")["jobs"]["deploy"]["env"]
    for name in environment:
        assert f"${{{name}" in given or name == "AZURE_SUBSCRIPTION_ID", name
    documented = (bicep.INFRA / "README.md").read_text()
    for name in re.findall(r"\$\{(QUEUE_[A-Z_]+)", given):
        assert f"`{name}`" in documented or f"`{name}`," in documented or name.startswith("QUEUE_NEW_"), name
