"""What the reference worker keeps on the disk, and what it does not: folders of runs, caches, files to upload."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.local.stacks import wait
from tests.worker.test_process import has_ended
from worker.caches import Cache, Caches
from worker.files import Unusable, files_below, opened
from worker.folders import Folders, locked, remove


async def test_a_folder_goes_with_its_run(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sweep()
    async with folders.one("run") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").touch()
        (folder / "deep").chmod(0)
        (folder / "outside").symlink_to(tmp_path)
    assert list((tmp_path / "tasks").iterdir()) == []


async def test_a_folder_that_the_task_has_removed(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sweep()
    async with folders.one("run") as folder:
        shutil.rmtree(folder)
    assert list((tmp_path / "tasks").iterdir()) == []


DYING = """
import asyncio, sys
from pathlib import Path
from worker.folders import Folders

async def main():
    async with Folders(Path(sys.argv[1])).one("dying") as folder:
        (folder / "file").touch()
        print("there", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


async def test_what_belongs_to_a_run_is_not_swept(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sweep()
    async with folders.one("mine") as mine:
        folders.sweep()
        assert mine.exists()


def test_what_a_worker_that_died_has_left_is_swept(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sweep()
    with subprocess.Popen(
        [sys.executable, "-c", DYING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        folders.sweep()
        assert (tmp_path / "tasks" / "dying" / "file").exists(), "its worker lives"
        other.kill()
        other.wait()
        folders.sweep()
        assert list((tmp_path / "tasks").iterdir()) == []


def test_a_work_directory_of_another_user_is_refused_where_anyone_could_have_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    Folders(tmp_path / "work").sweep()
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError):
        Folders(tmp_path / "work").sweep()


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    remove(tmp_path / "link")
    remove(tmp_path / "nothing")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_no_depth_is_too_deep(tmp_path: Path) -> None:
    """Paths that are longer than a path may be, names that are in the way, and directories that nobody may enter."""
    folder = os.open(tmp_path, os.O_RDONLY)
    for name in ["top", *["x" * 200] * 1500]:
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.mkdir(".removed-1", dir_fd=folder)
    os.fchmod(folder, 0o500)
    os.close(folder)
    for number in range(5):
        (tmp_path / "top" / f".removed-{number}" / "closed").mkdir(parents=True)
        (tmp_path / "top" / f".removed-{number}" / "closed").chmod(0)
    os.mkfifo(tmp_path / "top" / "pipe")
    remove(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_appears_while_a_folder_is_removed_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "top" / "inner").mkdir(parents=True)
    original = os.listdir

    def swap(folder: int) -> list[str]:
        found = original(folder)
        if "inner" in found:
            (tmp_path / "top" / "inner").rmdir()
            (tmp_path / "top" / "inner").symlink_to(kept)
        return found

    monkeypatch.setattr(os, "listdir", swap)
    remove(tmp_path / "top")
    assert (kept / "file").exists()


@pytest.fixture
def caches(tmp_path: Path) -> Caches:
    return Caches(tmp_path, keep_free=0)


def used(cache: Cache, place: Path, write: str | None = None) -> str | None:
    """What a cache holds; `write` replaces it."""
    cache.move_in(place)
    file = place / "file"
    found = file.read_text() if file.exists() else None
    if write is not None:
        file.write_text(write)
    return found


def test_a_cache_is_found_as_it_was_left(caches: Caches, tmp_path: Path) -> None:
    place = tmp_path / "task" / "some" / "where"
    with caches.one("a") as cache:
        assert cache.is_new
        assert used(cache, place, "first") is None
    assert not place.exists()
    with caches.one("b") as other:
        assert other.is_new
    with caches.one("a") as cache:
        assert not cache.is_new
        assert used(cache, place) == "first"


def test_a_cache_outlives_a_task_that_is_ended(caches: Caches, tmp_path: Path) -> None:
    """Cancelled, or given back: the folder of its run is removed."""
    with pytest.raises(asyncio.CancelledError), caches.one("a") as cache:
        used(cache, tmp_path / "task" / "place", "content")
        raise asyncio.CancelledError
    shutil.rmtree(tmp_path / "task")
    with caches.one("a") as cache:
        assert used(cache, tmp_path / "place") == "content"


def test_two_tasks_at_once_have_caches_of_their_own(caches: Caches, tmp_path: Path) -> None:
    with caches.one("a") as one, caches.one("a") as two:
        assert used(one, tmp_path / "1", "first") is None
        assert used(two, tmp_path / "2", "second") is None
    with caches.one("a") as one, caches.one("a") as two:
        assert {used(one, tmp_path / "1"), used(two, tmp_path / "2")} == {"first", "second"}


def test_a_purged_cache_is_new_again(caches: Caches, tmp_path: Path) -> None:
    with caches.one("a") as cache:
        used(cache, tmp_path / "place", "content")
        cache.purge()
    assert not (tmp_path / "place").exists()
    with caches.one("a") as cache:
        assert cache.is_new


def _linked_elsewhere(place: Path) -> None:
    shutil.rmtree(place)
    place.symlink_to("/etc")


@pytest.mark.parametrize(
    "spoil",
    [
        shutil.rmtree,
        _linked_elsewhere,
        lambda place: place.rename(f"{place}2"),
    ],
)
def test_a_cache_that_the_task_has_replaced_is_forgotten(
    caches: Caches, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    with caches.one("a") as cache:
        used(cache, tmp_path / "place", "content")
        spoil(tmp_path / "place")
    with caches.one("a") as cache:
        assert cache.is_new


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of somebody else, in place of which a task may put its cache."""
    outside = tmp_path / "somebody" / "secrets"
    outside.mkdir(parents=True)
    (outside / "key").touch()
    return outside


@pytest.mark.parametrize("is_purged", [False, True], ids=["taken back", "purged"])
def test_a_link_above_a_cache_is_not_followed(tmp_path: Path, caches: Caches, outside: Path, is_purged: bool) -> None:
    folder = tmp_path / "tasks" / "A-0"
    with caches.one("mine") as cache:
        cache.move_in(folder / "x" / "secrets")
        (folder / "x").rename(folder / "y")
        (folder / "x").symlink_to(outside.parent)
        if is_purged:
            cache.purge()
    assert (outside / "key").exists()
    with caches.one("mine") as cache, pytest.raises(OSError, match="a link is in the way"):
        cache.move_in(folder / "x" / "other")
    assert [path.name for path in outside.parent.iterdir()] == ["secrets"]


def test_nobody_else_reaches_a_cache(tmp_path: Path, caches: Caches) -> None:
    (tmp_path / "caches").mkdir(mode=0o755)
    with caches.one("a"):
        assert (tmp_path / "caches").stat().st_mode & 0o777 == 0o700


def test_caches_make_room_the_longest_unused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = Caches(tmp_path, keep_free=100)
    for age, name in enumerate(("new", "old")):
        with caches.one(name) as cache:
            used(cache, tmp_path / "place", "x")
        os.utime(cache.home, (1000 - age, 1000 - age))
    free = iter([0, 200])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    caches.make_room()
    with caches.one("old") as old, caches.one("new") as new:
        assert (old.is_new, new.is_new) == (True, False)


def test_a_cache_in_use_is_not_removed(tmp_path: Path) -> None:
    caches = Caches(tmp_path, keep_free=1 << 62)
    with caches.one("a") as cache:
        used(cache, tmp_path / "place", "content")
        caches.make_room()
        assert (tmp_path / "place" / "file").exists()


WRITING = """
import asyncio, os, sys
from pathlib import Path
from worker.folders import Folders
from worker.helper import helping

async def main():
    folders = Folders(Path(sys.argv[1]))
    async with folders.one("dying") as folder:
        async with helping(folder, None, folders.locks(folder)) as helper:
            await helper.make_way("a")
            print(helper._process.pid, flush=True)
            with os.fdopen(os.pipe()[0], "rb") as content:
                await helper.write(content, None, "a")

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends when it has done what it was asked for")
def test_work_on_files_ends_with_its_worker(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sweep()
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        wait((tmp_path / "tasks" / "dying" / "a").exists)
        os.kill(pid, signal.SIGSTOP)  # as if it were held up by a disk
        worker.kill()
        worker.wait()
    wait(lambda: has_ended(pid))
    folders.sweep()
    assert list((tmp_path / "tasks").iterdir()) == []


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
    ("path", "reason"),
    [
        ("gone", "file-missing-on-worker"),
        ("out/file/below", "file-missing-on-worker"),
        ("out", "invalid-resource-on-worker"),
        ("pipe", "invalid-resource-on-worker"),
        ("leak", "invalid-resource-on-worker"),
        ("out/up/secret", "invalid-resource-on-worker"),
        ("circle", "invalid-resource-on-worker"),
    ],
)
def test_what_is_no_file_inside_is_refused(folder: Path, path: str, reason: str) -> None:
    with pytest.raises(Unusable) as refused, opened(folder, path):
        pass
    assert refused.value.reason == reason


def test_a_link_that_appears_after_the_path_was_resolved_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "realpath", os.path.abspath)
    for path in ("leak", "out/up/secret"):
        with pytest.raises(Unusable), opened(folder, path):
            pass


def test_files_of_a_directory(folder: Path) -> None:
    assert files_below(folder, ".") == ["absolute", "circle", "leak", "out/file", "pipe"]
    assert files_below(folder, "latest") == ["latest/file"]
    for path in ("out/file", "out/up"):
        with pytest.raises(Unusable):
            files_below(folder, path)


def test_a_folder_that_is_gone(folder: Path) -> None:
    shutil.rmtree(folder)
    with pytest.raises(Unusable) as refused, opened(folder, "out/file"):
        pass
    assert refused.value.reason == "file-missing-on-worker"


async def test_a_folder_is_had_though_a_worker_sweeps_at_that_moment(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sweep()
    sweeping = locked(tmp_path / "tasks" / "run.lock")
    sweeping.__enter__()
    asyncio.get_running_loop().call_later(0.1, sweeping.__exit__, None, None, None)
    async with folders.one("run") as folder:
        assert folder.is_dir()
