"""The pipelines run what exists here, may do little, and store nothing secret."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tests.promises.infra.workflow_expressions import holds
from tools.local.state import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def _load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def _steps(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(name, step) for name, job in _load(path)["jobs"].items() for step in job.get("steps", [])]


WRITES = {
    ("backup.yml", "backup"): {"id-token"},
    ("deploy.yml", "deploy"): {"id-token"},
    ("docs.yml", "publish"): {"contents"},
    ("pin-images.yml", "pin"): {"contents", "pull-requests"},
    ("release.yml", "worker-image"): {"packages", "id-token", "attestations"},
    ("release.yml", "draft"): {"contents", "id-token", "attestations"},
}
"""The rights to change something, by job; all other jobs change nothing."""
LONG = {("ci.yml", "large"): 120}
"""Jobs that may take longer than an hour, in minutes."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_little_is_allowed_and_everything_ends(path: Path) -> None:
    document = _load(path)
    assert document["permissions"] == {"contents": "read"}
    for name, job in document["jobs"].items():
        assert "uses" in job or job["timeout-minutes"] <= LONG.get((path.name, name), 60), name
        writes = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        assert writes == WRITES.get((path.name, name), set()), name
    for name, step in _steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, name
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+", step["uses"]), f"{name}: {step['uses']}"


def test_nothing_secret_is_stored_at_github() -> None:
    for path in FILES:
        text = path.read_text()
        assert "secrets." not in text
        # The job's own token, which ends with it, is the only one.
        text = text.replace("password: ${{ github.token }}", "")
        assert not re.search(r"client-secret|creds:|publish-profile|password", text, re.IGNORECASE)


def _judge(run: dict[str, Any], tmp_path: Path, run_id: str = "7") -> int:
    """Returns the exit code of the step that judges a run whose package is to be deployed again."""
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
def test_only_the_package_of_a_successful_run_of_main_is_deployed_again(tmp_path: Path) -> None:
    assert _judge(GOOD_RUN, tmp_path) == 0
    assert _judge({**GOOD_RUN, "event": "workflow_dispatch"}, tmp_path) == 0
    assert _judge(GOOD_RUN, tmp_path, run_id="7/../8") != 0
    for name, value in {
        "event": "pull_request",
        "head_branch": "topic",
        "conclusion": "failure",
        "path": ".github/workflows/ci.yml",
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
    released = next(i for i, step in enumerate(steps) if "gh release download" in step.get("run", ""))
    assert download < released < login
    for given in (
        {"github.event_name": "push"},
        {"github.event_name": "release"},
        {"github.event_name": "workflow_dispatch", "inputs.release": "v1.2.3"},
        {"github.event_name": "workflow_dispatch", "inputs.run_id": "7"},
    ):
        compared = [index for index in (check, released) if holds(steps[index]["if"], given)]
        assert len(compared) == 1, given
        assert holds(steps[download]["if"], given) is (compared == [check]), given
    assert steps[judge]["if"] == "${{ inputs.run_id }}"


def _download(tmp_path: Path, *, content: bytes = b"package", attested: bool = True, private: bool = False) -> int:
    """Returns the exit code of the step that takes a release's package, with a double of `gh`."""
    step = next(step for _, step in _steps(FOLDER / "deploy.yml") if "gh release download" in step.get("run", ""))
    sums = f"{hashlib.sha256(b'package').hexdigest()}  queue.zip\n{hashlib.sha256(b'other').hexdigest()}  other.zip\n"
    (tmp_path / "queue.zip").write_bytes(content)
    (tmp_path / "SHA256SUMS").write_text(sums)
    (tmp_path / "gh").write_text(
        "#!/bin/sh\n"
        f'case $1 in release) mkdir -p dist && cp "{tmp_path}/queue.zip" "{tmp_path}/SHA256SUMS" dist ;;'
        f" attestation) exit {0 if attested else 1} ;; *) exit 2 ;; esac\n"
    )
    (tmp_path / "gh").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "owner/queue",
        "RELEASE": "v1.2.3",
        "PRIVATE": str(private).lower(),
    }
    shell = ["bash", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(shell, env=environment, cwd=tmp_path, capture_output=True, check=False).returncode


def test_only_what_a_release_has_attached_and_its_workflow_attested_is_deployed(tmp_path: Path) -> None:
    assert _download(tmp_path) == 0
    assert _download(tmp_path, content=b"changed") != 0
    assert _download(tmp_path, attested=False) != 0
    assert _download(tmp_path, attested=False, private=True) == 0, "private repositories have no attestation"
    assert _download(tmp_path, content=b"changed", private=True) != 0


@pytest.mark.parametrize(
    ("release", "run", "code"),
    [
        ("", "", 0),
        ("v1.2.3", "", 0),
        ("", "7", 0),
        ("v1.2.3", "7", 1),
        ("main", "", 1),
        ("v1.2.3;x", "", 1),
        ("v1", "", 1),
    ],
)
def test_one_package_is_named_and_a_release_by_its_version(tmp_path: Path, release: str, run: str, code: int) -> None:
    step = _steps(FOLDER / "deploy.yml")[0][1]
    environment = {"PATH": os.environ["PATH"], "RELEASE": release, "RUN_ID": run}
    shell = ["bash", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(shell, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == code


def test_inputs_reach_shells_as_variables_only() -> None:
    """Inputs reach shells as variables only: what the runner writes into a script could be a script."""
    for path in FILES:
        for name, step in _steps(path):
            assert "${{ inputs." not in step.get("run", ""), name


WHICH = {"AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_SUBSCRIPTION_ID"}
"""Variables that say which deployment it is. What it is, its description says."""
FIXED = {"AZURE_PRINCIPAL_TYPE", "QUEUE_BUILD", "QUEUE_CONFIRM", "RELEASE"}
"""Variables that the pipeline sets itself: it is no person, knows what it deploys, and what a person has confirmed."""


def test_the_pipeline_says_which_deployment_and_not_what_it_is() -> None:
    """The pipeline passes which deployment it is, and nothing that its description says."""
    passed = _load(FOLDER / "deploy.yml")["jobs"]["deploy"]["env"]
    assert passed.keys() == WHICH | FIXED
    for name in WHICH:
        assert passed[name] == f"${{{{ vars.{name} }}}}"
    assert passed["AZURE_PRINCIPAL_TYPE"] == "ServicePrincipal", "a pipeline does not become the operator"
    assert passed["QUEUE_CONFIRM"] == "${{ inputs.confirm }}", "a push confirms nothing"
    provision = [step["run"] for _, step in _steps(FOLDER / "deploy.yml") if "azd provision" in step.get("run", "")]
    assert provision == ["azd provision --no-prompt --no-state"], "hooks run, and what hands did is undone"


ACTIONLINT = shutil.which(os.environ.get("ACTIONLINT", "actionlint"))
"""Path of actionlint, which knows the schema of workflows, contexts, and, with shellcheck, what shells run."""


@pytest.mark.skipif(
    ACTIONLINT is None and "REQUIRE_AZURE_TOOLS" not in os.environ, reason="actionlint is not on the PATH"
)
def test_workflows_are_what_github_takes() -> None:
    done = subprocess.run([str(ACTIONLINT)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
