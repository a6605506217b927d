"""The pipelines: what they run exists here, what they may do is little, and nothing secret is stored."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tests.infra import templates
from tests.infra.workflow_expressions import holds
from tools.local.deployments import description
from tools.local.state import ROOT
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate

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
"""What a job may change; all others change nothing."""
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
    """The exit code of the step that takes a release's package, with `gh` as far as it is used."""
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
    """What is written into a script by the runner could be a script."""
    for path in FILES:
        for name, step in _steps(path):
            assert "${{ inputs." not in step.get("run", ""), name


def test_paths_and_commands_of_the_repository_exist() -> None:
    for path in FILES:
        for _, step in _steps(path):
            for word in re.findall(r"(?<![\w$/])(?:\./)?((?:infra|tests|local)/[\w./-]+)", step.get("run", "")):
                assert (ROOT / word).exists(), word
            for command in re.findall(r"\./dev ([\w-]+)", step.get("run", "")):
                assert command in {"admin", "test", "host-check", "package", "docs", "release"}


HOOKS_OWN = re.compile(r"QUEUE_NEW_\w+|AZURE_PRINCIPAL_ID|QUEUE_APP_VERSION")
"""What hooks set, or azd knows by itself."""
WHICH = {"AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_SUBSCRIPTION_ID"}
"""Which deployment it is; what it is, its description says."""
FIXED = {"AZURE_PRINCIPAL_TYPE", "QUEUE_BUILD", "QUEUE_CONFIRM", "RELEASE"}
"""What the pipeline decides itself: it is no person, it knows what it deploys, and what a person has confirmed."""


def _parameters() -> set[str]:
    """Variables that main.parameters.json takes."""
    given = set(re.findall(r"\$\{(\w+)", (templates.INFRA / "main.parameters.json").read_text()))
    return {name for name in given if not HOOKS_OWN.fullmatch(name)}


def _documented() -> set[str]:
    """Variables that infra/README.md offers in its table."""
    rows = re.findall(r"^\| `[^|]+\| (`QUEUE_[^|]+)\|", (templates.INFRA / "README.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(QUEUE_\w+)`", row)}


def test_the_pipeline_says_which_deployment_and_not_what_it_is() -> None:
    """A value of its own would undo what somebody has described, or be undone by it."""
    passed = _load(FOLDER / "deploy.yml")["jobs"]["deploy"]["env"]
    assert passed.keys() == WHICH | FIXED
    for name in WHICH:
        assert passed[name] == f"${{{{ vars.{name} }}}}"
    assert passed["AZURE_PRINCIPAL_TYPE"] == "ServicePrincipal", "a pipeline does not become the operator"
    assert passed["QUEUE_CONFIRM"] == "${{ inputs.confirm }}", "a push confirms nothing"
    provision = [step["run"] for _, step in _steps(FOLDER / "deploy.yml") if "azd provision" in step.get("run", "")]
    assert provision == ["azd provision --no-prompt --no-state"], "hooks run, and what hands did is undone"


def test_every_parameter_is_documented_and_no_others() -> None:
    assert _documented() == {name for name in _parameters() if name.startswith("QUEUE_")}
    text = (templates.INFRA / "README.md").read_text()
    for name in description.described():
        assert re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE), name


@pytest.mark.parametrize("variable", sorted(_parameters()))
def test_every_parameter_changes_what_is_deployed(variable: str) -> None:
    environment = {**scenarios.EVERYTHING, "QUEUE_PROFILE": "large"}
    changed = {**environment, variable: OTHER[variable]}
    if variable.startswith("AZURE_PRINCIPAL"):
        environment = {**environment, "QUEUE_OPERATOR_ID": "", "AZURE_PRINCIPAL_ID": "p", "AZURE_PRINCIPAL_TYPE": ""}
        changed = {**environment, variable: OTHER[variable]}
    if variable == "QUEUE_BUDGET_START":
        environment = {**environment, "QUEUE_MONTHLY_BUDGET": "5", "QUEUE_BUDGET_START": "2026-01-01"}
        changed = {**environment, variable: OTHER[variable]}
    before, after = (
        {each.id: each.body for each in evaluate(given).all_resources()} for given in (environment, changed)
    )
    assert before != after


OTHER = {
    "AZURE_ENV_NAME": "other",
    "AZURE_LOCATION": "eastus2",
    "AZURE_PRINCIPAL_TYPE": "User",
    "QUEUE_PROFILE": "small",
    "QUEUE_ROOT_URL": "https://other.example.com",
    "QUEUE_TOPIC_PREFIX": "other/",
    "QUEUE_PUBLIC_ARTIFACTS": "false",
    "QUEUE_UPLOADS_APP": "true",
    "QUEUE_PUBLIC_ARTIFACT_BASE_URL": "https://other.example.com/a",
    "QUEUE_OPENID_CLIENT_ID": "cccccccc-bbbb-cccc-dddd-eeeeeeeeeeee",
    "QUEUE_OPENID_ISSUER": "https://id.example.com",
    "QUEUE_OPENID_NAME": "other",
    "QUEUE_OPENID_SCOPES": "openid groups",
    "QUEUE_OPENID_USER_CLAIM": "sub",
    "QUEUE_OPENID_ROLES": "*=login:other",
    "QUEUE_OPENID_WORKLOAD_ISSUER": "https://oidc.example.com",
    "QUEUE_OPENID_WORKLOAD_NAME": "other",
    "QUEUE_ACCEPT_PREVIOUS_ROOT_TOKEN": "false",
    "QUEUE_SIGN_WITH_ACCOUNT_KEY": "false",
    "QUEUE_OPERATOR_ID": "none",
    "QUEUE_OPERATOR_TYPE": "ServicePrincipal",
    "QUEUE_ALERT_EMAILS": "else@example.com",
    "QUEUE_VIRTUAL_NETWORK": "false",
    "QUEUE_VIRTUAL_NETWORK_PREFIX": "10.9.0.0/16",
    "QUEUE_APP_PUBLIC_ACCESS": "Disabled",
    "QUEUE_STORAGE_PUBLIC_ACCESS": "Disabled",
    "QUEUE_SERVICEBUS_PUBLIC_ACCESS": "Disabled",
    "QUEUE_KEY_VAULT_PUBLIC_ACCESS": "Disabled",
    "QUEUE_WORKERS": "my-team/linux",
    "QUEUE_WORKER_IMAGE": "other.azurecr.io/worker:2",
    "QUEUE_WORKER_REGISTRY": "other",
    "QUEUE_WORKER_OVERRIDES": '{"my-team/linux": {"maxExecutions": 3}}',
    "QUEUE_PROFILE_OVERRIDES": '{"updateStrategy": "RollingUpdate"}',
    "QUEUE_SETTING_OVERRIDES": '{"POLL_VISIBILITY_SECONDS": "240"}',
    "QUEUE_STORAGE_ALLOWED_ADDRESSES": '["203.0.113.0/24"]',
    "QUEUE_STORAGE_ACCOUNT_ID": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/stold",
    "QUEUE_ARTIFACT_CORS_ORIGINS": '["https://example.com"]',
    "QUEUE_MONTHLY_BUDGET": "100",
    "QUEUE_BUDGET_START": "2026-02-01",
    "QUEUE_TAGS": '{"a": "b"}',
    "QUEUE_NAMES": '{"storage": "stother"}',
}


@functools.cache
def _schema() -> jsonschema_rs.Draft7Validator:
    """The published schema of workflows, which check-jsonschema brings along."""
    # By its place in the package: importing the package takes seconds.
    package = importlib.metadata.distribution("check-jsonschema")
    path = package.locate_file("check_jsonschema/builtin_schemas/vendor/github-workflows.json")
    return jsonschema_rs.Draft7Validator(json.loads(Path(str(path)).read_text()))


def _against_schema(text: str) -> list[str]:
    # YAML 1.1 reads the key `on` as true.
    document = {"on" if key is True else key: value for key, value in yaml.safe_load(text).items()}
    return [error.message for error in _schema().iter_errors(document)]


@pytest.mark.parametrize("path", [*FILES, ROOT / "docs" / "examples" / "decision-task.yml"], ids=lambda path: path.name)
def test_workflows_are_of_their_schema(path: Path) -> None:
    assert _against_schema(path.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("runs-on: ubuntu-24.04", "run-on: ubuntu-24.04"),
        ("timeout-minutes: 40", "timeout-minutes: long"),
        ("        with:\n", "        wiht:\n"),
        ("contents: read", "contents: all"),
        ("pull_request:", "pull_requests:"),
    ],
)
def test_a_mistake_in_a_workflow_is_found(old: str, new: str) -> None:
    text = (FOLDER / "ci.yml").read_text()
    assert old in text
    assert _against_schema(text.replace(old, new, 1))


CONTEXTS = {"github", "vars", "inputs", "needs", "matrix", "steps", "jobs"}
FUNCTIONS = {"cancelled", "format"}


def _wrong_expressions(document: dict[Any, Any]) -> list[str]:
    """Expressions of a workflow that are about what does not exist there."""
    on = document.get("on", document.get(True)) or {}
    inputs = {name for event in on.values() if isinstance(event, dict) for name in event.get("inputs", {})}
    wrong: list[str] = []
    for job in document["jobs"].values():
        steps = {step["id"]: step for step in job.get("steps", []) if "id" in step}
        needed = {job["needs"]} if isinstance(job.get("needs"), str) else set(job.get("needs", []))
        allowed = {
            "inputs": inputs,
            "steps": steps,
            "needs": needed,
            "matrix": job.get("strategy", {}).get("matrix", {}),
        }
        for expression in re.findall(r"\$\{\{(.*?)\}\}", json.dumps(job)):
            words = re.sub(r"'[^']*'", "''", expression)
            wrong += [word for word in re.findall(r"([a-zA-Z]\w*)\(", words) if word not in FUNCTIONS]
            for context, name in re.findall(r"(?<![\w.])([a-zA-Z]\w*)(?:\.([\w-]+))?(?![\w(])", words):
                if context not in CONTEXTS or name not in allowed.get(context, {name}):
                    wrong.append(f"{context}.{name}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_expressions_are_about_what_exists(path: Path) -> None:
    assert _wrong_expressions(_load(path)) == []


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("inputs.run_id }}", "inputs.run }}", "inputs.run"),
        ("needs.ci.outputs", "needs.test.outputs", "needs.test"),
        ("vars.AZURE_ENV_NAME", "var.AZURE_ENV_NAME", "var.AZURE_ENV_NAME"),
        ("!cancelled()", "!canceled()", "canceled"),
    ],
)
def test_a_mistake_in_an_expression_is_found(old: str, new: str, wrong: str) -> None:
    text = (FOLDER / "deploy.yml").read_text()
    assert old in text
    assert wrong in _wrong_expressions(yaml.safe_load(text.replace(old, new)))
