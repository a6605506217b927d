"""The files for contributors name what exists: hooks, versions, updates, forms."""

import re
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tools.local import checks
from tools.local.state import ROOT

GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def hooks() -> dict[str, dict[str, Any]]:
    return {hook["entry"]: hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}


def test_hooks_run_every_check_of_dev_test_but_pytest() -> None:
    commands = [f".venv/bin/python -m {' '.join(command)}" for _, command in checks.steps([]) if command[0] != "pytest"]
    assert [entry for entry in hooks() if entry.startswith(".venv/")] == commands


def test_hooks_download_nothing() -> None:
    assert {repo["repo"] for repo in read(".pre-commit-config.yaml")["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks().values()} == {"system"}


def test_the_changelog_begins_with_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sections = re.findall(r"^## \[(\S+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0][0] == version
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in sections[1:])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d|Unreleased", sections[0][1])


def test_updates_cover_every_kind_of_lock_file() -> None:
    updates = {
        (update["package-ecosystem"], update["directory"]) for update in read(".github/dependabot.yml")["updates"]
    }
    of_root = {("pip", "/"), ("npm", "/"), ("github-actions", "/"), ("docker-compose", "/")}
    assert updates == of_root | {("pip", "/worker"), ("docker", "/worker")}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_ask_for_something(path: Any) -> None:
    form = yaml.safe_load(path.read_text())
    assert form.keys() >= {"name", "description", "body"}
    fields = [item for item in form["body"] if item["type"] != "markdown"]
    assert any(item.get("validations", {}).get("required") for item in fields)
    assert len({item["id"] for item in fields}) == len(fields)
