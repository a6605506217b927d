"""Which files of a task's folder are uploaded, and which are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worker import artifacts
from worker.artifacts import Unusable, files_below, opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "file").write_text("content")
    (folder / "latest").symlink_to("out")
    (folder / "absolute").symlink_to(folder / "out" / "file")
    (tmp_path / "secret").write_text("secret")
    (folder / "leak").symlink_to(tmp_path / "secret")
    (folder / "out" / "up").symlink_to("../..")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize("path", ["out/file", "latest/file", "absolute"])
def test_files_inside_are_opened(folder: Path, path: str) -> None:
    with opened(folder, path) as file:
        assert file.read() == b"content"


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["gone", "out/file/below"], "file-missing-on-worker"),
        (["out", "pipe", "leak", "out/up/secret", "circle", "x" * 300], "invalid-resource-on-worker"),
    ],
)
def test_what_is_no_file_inside_is_refused(folder: Path, paths: list[str], reason: str) -> None:
    for path in paths:
        with pytest.raises(Unusable) as refused:
            opened(folder, path)
        assert refused.value.reason == reason


def test_files_of_a_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files_below(folder, ".") == ["absolute", "circle", "leak", "out/file", "pipe"]
    assert files_below(folder, "latest") == ["file"]
    for path in ("out/file", "out/up", "gone"):
        with pytest.raises(Unusable):
            files_below(folder, path)
    monkeypatch.setattr(artifacts, "MOST_FILES", 4)
    with pytest.raises(Unusable, match="more than 4 files"):
        files_below(folder, ".")
