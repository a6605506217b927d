"""Mistakes planted by one who had read what is deployed, and none of the tests: the test that is named fails with each.

planted_unseen.json is the list, as it was written before the tests were read. The tests that are named run in a copy of
the repository with the mistake in it; `kept/…` is a text that would change (tests/infra/kept).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.infra.kept.texts import TEXTS
from tools.local.state import ROOT

LIST: list[dict[str, str]] = json.loads((Path(__file__).parent / "planted_unseen.json").read_text())
PARTS = (".devcontainer", ".github", "docs", "functions", "infra", "requirements", "shared", "tests", "tools", "worker")
FAILED = 1
"""pytest's exit code when tests ran, and some failed; that of a text that would change."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that is deployed, with the tests."""
    folder = tmp_path_factory.mktemp("copy") / "repository"
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)
    return folder


@contextmanager
def _with(copy: Path, mistake: dict[str, str]) -> Iterator[None]:
    path = copy / mistake["file"]
    text = path.read_text()
    assert mistake["old"] in text, "nothing to replace: adapt the mistake"
    path.write_text(text.replace(mistake["old"], mistake["new"], 1))
    try:
        yield
    finally:
        path.write_text(text)


def test_the_list_is_long_and_each_mistake_is_in_it_once() -> None:
    assert len({(each["file"], each["old"], each["new"]) for each in LIST}) == len(LIST) >= 60
    for each in LIST:
        assert each["old"] in (ROOT / each["file"]).read_text(), f"nothing to replace for {each['name']}: adapt it"
        if each["found by"].startswith("kept/"):
            assert each["found by"].removeprefix("kept/") in TEXTS, each["found by"]
            continue
        file, colons, function = each["found by"].partition("::")
        text = (ROOT / "tests" / "infra" / file).read_text()
        assert not colons or f"def {function}(" in text, each["found by"]


@pytest.mark.large
@pytest.mark.parametrize("mistake", LIST, ids=lambda each: each["name"])
def test_a_mistake_is_found(mistake: dict[str, str], copy: Path) -> None:
    test = mistake["found by"]
    pytest_ = ["pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"tests/infra/{test}"]
    compare = ["tests.infra.kept", "--compare", test.removeprefix("kept/")]
    with _with(copy, mistake):
        done = subprocess.run(
            [sys.executable, "-m", *(compare if test.startswith("kept/") else pytest_)],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == FAILED, done.stdout
