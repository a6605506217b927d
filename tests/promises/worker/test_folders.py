"""The work directory of a worker: a folder for each run, caches, and what tasks leave."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.local.state import ROOT
from worker import folders
from worker.folders import WorkDirectory, empty
from worker.users import User

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
"""The guard, which does this, has no threads; pytest may have some."""


@pytest.fixture
def work(tmp_path: Path) -> WorkDirectory:
    return WorkDirectory(tmp_path / "work", None, 0)


def run(work: WorkDirectory, cache: str = "a", place: str = "c") -> tuple[Path, bool | str]:
    """Begins a run with a cache; returns where that is, and whether it is new."""
    folder, caches = work.begin("run", {cache: place})
    return folder / place, caches[cache]


def test_a_folder_goes_with_its_run(work: WorkDirectory, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    folder, _ = work.begin("run", {})
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "deep").mkdir()
    (folder / "deep" / "file").touch()
    (folder / "deep").chmod(0)
    (folder / "link").symlink_to(tmp_path / "outside")
    assert work.put_back() == ""
    assert list(folder.parent.iterdir()) == []
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize("is_link", [False, True], ids=["", "and replaced by a link"])
def test_a_folder_that_the_task_has_removed(work: WorkDirectory, tmp_path: Path, is_link: bool) -> None:
    """A task that runs as the worker's own user can remove its folder."""
    (tmp_path / "mine").mkdir(mode=0o755)
    (tmp_path / "mine" / "file").touch()
    folder = run(work)[0].parent
    shutil.rmtree(folder)
    if is_link:
        folder.symlink_to(tmp_path / "mine")
        (folder.parent / "another").touch()
    assert work.put_back() == ""
    assert list(folder.parent.iterdir()) == []
    assert (tmp_path / "mine" / "file").exists()
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755
    shutil.rmtree(folder.parent)
    folder.parent.symlink_to(tmp_path / "mine")
    assert "cannot be removed" in work.put_back()
    assert (tmp_path / "mine" / "file").exists()


def test_no_depth_and_no_number_is_too_much() -> None:
    """Paths that are longer than a path may be, and directories that nobody may enter."""
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # some disks take milliseconds for each
    with tempfile.TemporaryDirectory(dir=in_memory) as place:
        top, folder = Path(place) / "top", os.open(place, os.O_RDONLY)
        for name in ["top", *["x" * 200] * 1500]:
            os.mkdir(name, dir_fd=folder)
            inner = os.open(name, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.fchmod(folder, 0o500)
        os.close(folder)
        for number in range(500):
            (top / "many" / str(number) / "closed").mkdir(parents=True)
            (top / "many" / str(number) / "closed").chmod(0)
        os.mkfifo(top / "pipe")
        (top / "many" / "link").symlink_to(place)
        empty(top)
        assert list(top.iterdir()) == []


def test_what_a_worker_that_died_has_left_is_removed_and_a_second_worker_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "TRIES", 2)
    code = f"""
import sys
from pathlib import Path
from worker.folders import WorkDirectory
work = WorkDirectory(Path({str(tmp_path / "work")!r}), None, 0)
(work.begin("run", {{}})[0] / "file").touch()
print("there", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        with pytest.raises(OSError, match="another worker uses"):
            WorkDirectory(tmp_path / "work", None, 0)
        assert (tmp_path / "work" / "tasks" / "run" / "file").exists()
        other.kill()
        other.wait()
    WorkDirectory(tmp_path / "work", None, 0)
    assert list((tmp_path / "work" / "tasks").iterdir()) == []


def test_a_work_directory_of_another_user_is_refused_where_anyone_could_have_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError):
        WorkDirectory(tmp_path / "work", None, 0)


def test_a_work_directory_that_a_task_could_change_is_refused(open_folder: Path, user: User) -> None:
    work = open_folder / "work"
    work.mkdir()
    os.chown(work, user.uid, user.gid)
    with pytest.raises(PermissionError, match="another user"):
        WorkDirectory(work, user, 0)
    os.chown(work, 0, 0)
    work.chmod(0o777)
    with pytest.raises(PermissionError, match="can be changed"):
        WorkDirectory(work, user, 0)


def test_a_user_has_tasks_of_one_worker(open_folder: Path, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one would end them."""
    monkeypatch.setattr(folders, "TRIES", 2)
    work = WorkDirectory(open_folder / "one", user, 0)
    with pytest.raises(OSError, match=f"user {user.uid}"):
        WorkDirectory(open_folder / "two", user, 0)
    os.close(work._held)
    os.close(WorkDirectory(open_folder / "three", user, 0)._held)


def test_a_cache_is_found_as_it_was_left(work: WorkDirectory, tmp_path: Path) -> None:
    place, is_new = run(work, place="some/where")
    assert is_new is True
    (place / "file").write_text("first")
    work.put_back(filled=True)
    assert not place.exists()
    assert run(work, "b")[1] is True
    work.put_back(filled=True)
    place, is_new = run(work)
    assert is_new is False
    assert (place / "file").read_text(encoding="utf-8") == "first"
    assert stat.S_IMODE((tmp_path / "work" / "caches").stat().st_mode) == 0o700, "nobody else reaches it"


def _linked_elsewhere(place: Path) -> None:
    shutil.rmtree(place)
    place.symlink_to("/etc")


@pytest.mark.parametrize("spoil", [shutil.rmtree, _linked_elsewhere, lambda place: place.rename(f"{place}2")])
def test_a_cache_that_the_task_has_replaced_is_forgotten(work: WorkDirectory, spoil: Callable[[Path], object]) -> None:
    spoil(run(work)[0])
    assert work.put_back(filled=True) == ""
    assert run(work)[1] is True


def test_a_link_above_a_cache_is_not_followed(work: WorkDirectory, tmp_path: Path) -> None:
    outside = tmp_path / "somebody" / "secrets"
    outside.mkdir(parents=True)
    (outside / "key").touch()
    place, _ = run(work, place="x/secrets")
    place.parent.rename(place.parent.with_name("y"))
    place.parent.symlink_to(outside.parent)
    assert work.put_back(filled=True) == ""
    assert (outside / "key").exists()
    inner, _ = run(work)
    (inner / "link").symlink_to(outside.parent)
    work.put_back(filled=True)
    folder, caches = work.begin("run", {"a": "c", "b": "c/link/in", "d": "c", "e": "../x", "f": "/x"})
    assert (caches["a"], caches["b"], caches["d"]) == (False, "'c/link/in': a link is in the way", "File exists")
    assert not [name for name in ("b", "d", "e", "f") if isinstance(caches[name], bool)]
    assert [path.name for path in outside.parent.iterdir()] == ["secrets"]
    assert [path.name for path in folder.iterdir()] == ["c"]


def test_caches_make_room_the_longest_unused_first(
    work: WorkDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, name in enumerate(("new", "old")):
        run(work, name)
        work.put_back(filled=True)
        (cache,) = (each for each in (tmp_path / "work" / "caches").iterdir() if each.stat().st_mtime > 2000)
        os.utime(cache, (1000 - age, 1000 - age))

    def make_room(*free: tuple[int, int]) -> str:
        disks = (SimpleNamespace(f_frsize=1, f_files=99, f_bavail=room, f_favail=files) for room, files in free)
        with monkeypatch.context() as patched:
            patched.setattr(os, "statvfs", lambda _: next(disks))
            return work.make_room()

    work._keep_free = 100
    assert make_room((99, 5), (100, 5)) == ""
    assert run(work, "old")[1] is True
    work.put_back(filled=True)
    assert run(work, "new")[1] is False
    assert "0 MiB and 4 files left" in make_room((100, 4), (100, 4)), "a cache in use is not removed"


def test_what_a_user_has_left_in_shared_places_is_removed(
    open_folder: Path, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = open_folder / "shared"
    (shared / "open").mkdir(parents=True)
    for each in (shared, shared / "open"):
        each.chmod(0o1777)
    monkeypatch.setattr(folders, "SHARED", (str(shared), "/nowhere"))
    for name in ("file", "directory/deep/file", "open/file"):
        path = shared / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        for each in (path, *path.parents):
            if shared in each.parents and each.name != "open":
                os.chown(each, user.uid, user.gid)
    (shared / "of-another").touch()
    (shared / "link").symlink_to(shared / "of-another")
    os.chown(shared / "link", user.uid, user.gid, follow_symlinks=False)
    os.close(WorkDirectory(open_folder / "work", user, 0)._held)
    assert sorted(path.name for path in shared.rglob("*")) == ["of-another", "open"]
