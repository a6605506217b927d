"""Steps of the pipelines run with tools that note what they were called with."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tests.promises.infra.workflow_expressions import holds
from tools.local.state import ROOT

FOLDER = ROOT / ".github" / "workflows"
_TOOL = """#!/bin/sh
printf '%s %s\\n' "${0##*/}" "$*" >> "$CALLS"
case ${0##*/} in
azd) echo "the $3" ;;
git) [ "$*" != "diff --quiet" ] || exit "${CHANGED:-0}" ;;
smoke-test.sh) printf '%s\\n' "$QUEUE_APP_VERSION" "$QUEUE_APP_PUBLIC_ACCESS" >> "$CALLS" ;;
esac
"""


def _steps(workflow: str) -> list[dict[str, Any]]:
    jobs = yaml.safe_load((FOLDER / workflow).read_text())["jobs"]
    return [step for job in jobs.values() for step in job.get("steps", [])]


def _run(step: dict[str, Any], folder: Path, **environment: str) -> list[str]:
    """Runs a step and returns what it called; its tools do nothing else."""
    tools = folder / "tools"
    tools.mkdir()
    names = ("az", "azcopy", "azd", "docker", "gh", "git")
    for path in [*(tools / name for name in names), folder / "dev", folder / "infra" / "hooks" / "smoke-test.sh"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TOOL)
        path.chmod(0o755)
    calls = folder / "calls"
    calls.touch()
    given = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "CALLS": str(calls), **environment}
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]], env=given, cwd=folder, check=True, capture_output=True
    )
    return calls.read_text().splitlines()


def _step(workflow: str, word: str) -> dict[str, Any]:
    (step,) = (step for step in _steps(workflow) if word in step.get("run", ""))
    return step


def test_a_backup_is_copied_with_all_that_is_below_it(tmp_path: Path) -> None:
    step = _step("backup.yml", "backup export")
    calls = _run(step, tmp_path, RUNNER_TEMP="/temp", QUEUE_BACKUP_ACCOUNT="away", STORAGE_ACCOUNT_NAME="st")
    exported, *copies = calls
    folder = exported.removeprefix("dev admin backup export ")
    name = folder.removeprefix("/temp/")
    there = f"https://away.blob.core.windows.net/exports/{name}"
    assert copies == [f"azcopy copy {folder}/* {there} --recursive"]


def test_a_backup_leaves_nothing_on_its_runner_even_when_it_failed(tmp_path: Path) -> None:
    step = _steps("backup.yml")[-1]
    assert "!cancelled()" in step["if"]
    left = tmp_path / "2026" / "Tasks.jsonl.gz"
    left.parent.mkdir()
    left.touch()
    _run(step, tmp_path, RUNNER_TEMP=str(tmp_path))
    assert not left.exists()


@pytest.mark.parametrize(
    ("tag", "published"), [("v1.2.3", "dev docs --publish 1.2.3 --alias latest"), ("", "dev docs --publish dev")]
)
def test_documentation_is_published_by_the_number_of_its_version(tmp_path: Path, tag: str, published: str) -> None:
    assert _run(_step("docs.yml", "--publish"), tmp_path, TAG=tag)[-1] == published


def test_checksums_are_those_of_everything_that_is_attached(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in ("queue.zip", "templates.json"):
        (dist / name).write_text(name)
    _run(_step("release.yml", "> SHA256SUMS"), tmp_path, IMAGE="ghcr.io/a/worker@sha256:1")
    assert (dist / "worker-image.txt").read_text() == "ghcr.io/a/worker@sha256:1\n"
    lines = (line.partition("  ") for line in (dist / "SHA256SUMS").read_text().splitlines())
    sums = {name: digest for digest, _, name in lines}
    attached = {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in attached}


def test_a_release_waits_for_a_person(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "queue.zip").touch()
    calls = _run(_step("release.yml", "gh release create"), tmp_path, TAG="v1.2.3", IMAGE="i")
    assert calls[-1].startswith("gh release create v1.2.3 --draft --verify-tag ")
    assert calls[-1].endswith(" dist/queue.zip")


def test_the_workers_image_has_the_number_of_the_version_and_is_named_by_digest(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text('{"containerimage.digest": "sha256:12"}')
    (tmp_path / "output").touch()
    calls = _run(
        _step("release.yml", "buildx build"),
        tmp_path,
        TAG="v1.2.3",
        GITHUB_REPOSITORY="Team/Queue",
        GITHUB_OUTPUT=str(tmp_path / "output"),
    )
    name = "ghcr.io/team/queue/worker"
    assert calls == [f"docker buildx build --push --tag {name}:1.2.3 --metadata-file metadata.json worker"]
    assert f"image={name}@sha256:12\n" in (tmp_path / "output").read_text()


def test_a_release_refuses_a_package_that_was_not_tested(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    for name in ("queue", "notify"):
        (tmp_path / "dist" / f"{name}.zip").write_bytes(b"changed")
    step = _step("release.yml", "| sha256sum |")
    with pytest.raises(subprocess.CalledProcessError):
        _run(step, tmp_path, SHA256=hashlib.sha256(b"tested").hexdigest())


@pytest.mark.parametrize("digest", ["", hashlib.sha256(b"another").hexdigest()])
def test_a_package_of_a_run_is_not_deployed_without_its_digest(tmp_path: Path, digest: str) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "queue.zip").write_bytes(b"package")
    with pytest.raises(subprocess.CalledProcessError):
        _run(_step("deploy.yml", "give the digest of the run's package"), tmp_path, SHA256=digest)


def test_a_packages_attestation_is_asked_for_by_workflow_and_tag(tmp_path: Path) -> None:
    """A package's attestation must be of the release workflow and of this tag: any other workflow of the repository may
    attest what it likes."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "queue.zip").write_bytes(b"package")
    (tmp_path / "dist" / "SHA256SUMS").write_text(f"{hashlib.sha256(b'package').hexdigest()}  queue.zip\n")
    step = _step("deploy.yml", "gh attestation verify")
    asked = _run(step, tmp_path, RELEASE="v1.2.3", GITHUB_REPOSITORY="a/b", PRIVATE="false")[-1]
    assert "--repo a/b " in asked
    assert "--signer-workflow a/b/.github/workflows/release.yml" in asked
    assert "--source-ref refs/tags/v1.2.3" in asked


def _jobs(workflow: str) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / workflow).read_text())["jobs"]
    return jobs


def test_nothing_of_a_release_is_made_before_its_parts_were_found_to_agree(tmp_path: Path) -> None:
    jobs = _jobs("release.yml")
    assert _run(_step("release.yml", "release check"), tmp_path, TAG="v1.2.3") == ["dev release check --tag v1.2.3"]
    waits = {
        name: {needs} if isinstance(needs := job.get("needs", []), str) else set(needs) for name, job in jobs.items()
    }
    after = {"check"}
    while more := {name for name, needs in waits.items() if needs & after} - after:
        after |= more
    assert after == jobs.keys()
    assert all("if" not in job for job in jobs.values()), "a job that runs all the same"


@pytest.mark.parametrize("private", [False, True])
def test_what_a_public_repository_releases_is_attested(private: bool) -> None:
    steps = [step for step in _steps("release.yml") if "attest-build-provenance" in step.get("uses", "")]
    assert len(steps) == 2, "the image, and what is attached"
    for step in steps:
        assert holds(step["if"], {"github.event.repository.private": private}) is not private


def test_everything_is_tested_on_each_python_and_both_locks_are_looked_through() -> None:
    runs = [step["run"] for step in _jobs("ci.yml")["test"]["steps"] if "run" in step]
    assert runs == ["./dev test"], "all of it, and nothing that lets it pass"
    audited = _step("ci.yml", "pip_audit")["run"]
    assert all(f"-r {file}" in audited for file in ("requirements/notify.txt", "worker/requirements.txt"))
    (script,) = re.findall(r"--entrypoint sh .* -c '(.*)'", _step("ci.yml", "--entrypoint sh")["run"])
    for user, code in (("10001", 0), ("1", 1), ("0", 1)):
        done = subprocess.run(["sh", "-c", script], env={"WORKER_TASK_USER": user}, check=False)
        assert done.returncode == code, "tasks are none of the system's users"


@pytest.mark.parametrize("changed", [False, True])
def test_digests_are_offered_where_there_are_new_ones(tmp_path: Path, changed: bool) -> None:
    calls = _run(_step("pin-images.yml", "gh pr create"), tmp_path, BRANCH="b", CHANGED=str(int(changed)))
    assert calls[0] == "git diff --quiet"
    assert any(call.startswith("gh pr create --head b ") for call in calls) is changed


def test_a_deployment_is_asked_for_the_version_that_it_was_given(tmp_path: Path) -> None:
    calls = _run(_step("deploy.yml", "smoke-test.sh"), tmp_path)
    assert calls[-2:] == ["the QUEUE_APP_VERSION", "the QUEUE_APP_PUBLIC_ACCESS"]


def test_each_app_gets_its_package_without_a_build(tmp_path: Path) -> None:
    calls = [each for each in _run(_step("deploy.yml", "config-zip"), tmp_path) if each.startswith("az ")]
    given = {re.findall(r"--name (\w+) --src (\S+) --build-remote false", each)[0] for each in calls}
    given = {each for each in given if each[0] != "the"}  # of what the stub of azd says
    names = {"AZURE_FUNCTION_APP_NAME": "queue", "AZURE_UPLOADS_APP_NAME": "queue", "AZURE_NOTIFY_APP_NAME": "notify"}
    assert given == {(name, f"dist/{package}.zip") for name, package in names.items()}
