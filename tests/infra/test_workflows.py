"""The pipelines: what they run exists here, what they may do is little, and nothing secret is stored."""

from __future__ import annotations

import re
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
