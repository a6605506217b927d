"""What keeps a commit from being released, and what a release says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.local import docs_site, release
from tools.local.state import ROOT

DIGEST = "sha256:" + "0123456789abcdef" * 4
OURS = "https://github.com/team/taskcluster-queue-azure"
FILES = (*release.IMAGE_FILES, "pyproject.toml", "CHANGELOG.md", "azure.yaml", "README.md", "infra/README.md")


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """Returns a checkout that can be released."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        without_digests = re.sub(r"@sha256:[0-9a-f]{64}", "", (ROOT / file).read_text())
        (tmp_path / file).write_text(without_digests)
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    release.pin_images(tmp_path, lambda image: DIGEST)
    release.set_repository(OURS, tmp_path)
    changelog = (tmp_path / "CHANGELOG.md").read_text()
    dated = re.sub(
        rf"^## \[{re.escape(release.version())}\].*$", f"## [{release.version()}] - 2030-01-31", changelog, flags=re.M
    )
    (tmp_path / "CHANGELOG.md").write_text(dated)
    (tmp_path / "tests" / "parts" / "samples").mkdir(parents=True)
    (tmp_path / "tests" / "parts" / "samples" / f"storage-{release.version()}.json.gz").touch()
    return tmp_path


def test_a_commit_whose_parts_agree_can_be_released(ready: Path) -> None:
    tag = f"v{release.version()}"
    assert list(release.problems(ready, tag=tag, published_by="team/taskcluster-queue-azure")) == []
    assert len(release.images(ready)) == len(release.images()) >= 8


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("pyproject.toml", r'^version = ".*"', 'version = "7.7.7"', "CHANGELOG.md has no section of 7.7.7"),
        ("CHANGELOG.md", r"\] - 2030-01-31", "] - Unreleased", "with a date"),
        ("azure.yaml", r"@\d+\.\d+\.\d+", "@7.7.7", "azure.yaml"),
        ("pyproject.toml", r"github\.com/team/", "github.com/OWNER/", "the example's repository"),
        ("README.md", r"\bteam/taskcluster", "else/taskcluster", "README.md names another"),
        (
            "tools/compose.yaml",
            rf"(azurite:\S+)@{DIGEST}",
            r"\1",
            "tools/compose.yaml: mcr.microsoft.com/azure-storage/azurite",
        ),
        ("worker/Dockerfile", rf"^(ARG BASE=\S+)@{DIGEST}", r"\1", "worker/Dockerfile: debian"),
        ("worker/Dockerfile", rf"^(FROM \S+uv:\S+)@{DIGEST}", r"\1", "worker/Dockerfile: ghcr.io/astral-sh/uv"),
        (".devcontainer/devcontainer.json", f"@{DIGEST}", "", ".devcontainer/devcontainer.json: mcr"),
        (".github/workflows/ci.yml", f"@{DIGEST}", "", "ci.yml: hadolint/hadolint"),
    ],
)
def test_what_does_not_agree_is_named(ready: Path, file: str, old: str, new: str, found: str) -> None:
    changed, times = re.subn(old, new, (ready / file).read_text(), count=1, flags=re.MULTILINE)
    assert times == 1, "adapt the mistake"
    (ready / file).write_text(changed)
    problems = list(release.problems(ready))
    assert any(found in problem for problem in problems), problems


def test_a_fork_may_have_any_name(ready: Path) -> None:
    """A fork's address is put in everywhere even if its name is a word that documents use."""
    for name in ("queue", "taskcluster-queue-azure-2", "main"):
        address = f"https://github.com/fork/{name}"
        assert release.set_repository(address, ready) == ["README.md", "pyproject.toml"]
        assert list(release.problems(ready)) == []
        assert f"--template fork/{name}\n" in (ready / "README.md").read_text()


def test_notes_are_the_section_with_links_that_work_on_their_page(ready: Path) -> None:
    text = release.notes(ready, worker_image=f"ghcr.io/team/worker@{DIGEST}")
    assert text.startswith("The first version.")
    assert f"./dev deployment set workerImage ghcr.io/team/worker@{DIGEST}\nazd provision\n" in text, (
        "descriptions win over azd's environment"
    )
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all(link.startswith(("https://", "#")) for link in links), links
    assert f"{OURS}/blob/v{release.version()}/docs/" in text


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Returns a repository that has only the pages and the files that they link to."""
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for page in docs_site.pages(ROOT):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / page, tmp_path / page)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", dirs_exist_ok=True)
    for path in docs_site.linked_files(ROOT):
        target = tmp_path / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir() if (ROOT / path).is_dir() else target.write_text("")
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_every_link_of_the_site_leads_somewhere(copied: Path) -> None:
    assert docs_site.build(copied) == 0
    assert (copied / docs_site.HTML / "search" / "search_index.json").exists()


def test_every_page_of_the_documentation_is_in_the_sites_navigation() -> None:
    navigation = (ROOT / "docs/mkdocs.yml").read_text()
    missing = [
        str(page)
        for page in docs_site.pages(ROOT)
        if page.parent.name not in {"decisions", "broker", "templates"}
        if str(page) not in navigation
    ]
    assert missing == []
