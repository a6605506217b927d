"""Tasks that run as users of their own, by a worker that is root: what they make it do, and what they leave."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from tests.worker.test_archives import LINK, zipped
from tests.worker.test_process import has_ended, until
from tests.worker.test_run import QUIET, FakeClaim
from worker import folders as folders_module
from worker.caches import Caches
from worker.claim import Claim
from worker.execution import Site
from worker.files import Unusable
from worker.filework import MEMORY
from worker.folders import Folders
from worker.helper import helping
from worker.options import Options
from worker.run import Run
from worker.users import User, Users, check_rights, listed

PYTHON = "/usr/bin/python3"


class Ran:
    """What became of a task."""

    def __init__(self, folder: Path, user: User) -> None:
        self.work = folder / "work"
        self.out = folder / "out"
        self.out.mkdir()
        self.out.chmod(0o777)
        self.users = Users([user])

    async def run(self, script: str, **payload: Any) -> list[str]:
        """Runs a task; what was reported of it."""

        async def answer(call: str) -> object:
            return {}

        options = Options(
            root_url="https://tc.example.com",
            credentials={},
            task_queue_id="a/b",
            worker_group="g",
            worker_id="w",
            work_dir=self.work,
            grace_seconds=0.2,
        )
        folders = Folders(options.work_dir)
        folders.sweep(is_root_for_others=True)
        wanted = {**QUIET, "command": ["sh", "-c", f"OUT={self.out}; {script}"], "maxRunTime": 60, **payload}
        claim = FakeClaim(wanted, answer)
        claim.definition["scopes"] = ["generic-worker:cache:*"]
        async with aiohttp.ClientSession() as session:
            site = Site(
                options=options,
                session=session,
                folders=folders,
                caches=Caches(options.work_dir, 0),
                users=self.users,
            )
            await Run(cast(Claim, claim), site).run(asyncio.Event())
        return claim.asked

    def said(self, name: str) -> str:
        """What the task has written."""
        return (self.out / name).read_text()


@pytest.fixture
def ran(open_folder: Path, user: User) -> Ran:
    return Ran(open_folder, user)


async def test_all_files_of_a_task_are_its_users_and_nobody_elses(ran: Ran, user: User) -> None:
    mounts = [
        {"file": "a/file", "content": {"raw": "text"}},
        {"directory": "b/cache", "cacheName": "one"},
        {"directory": "c", "format": "zip", "content": {"base64": _base64(zipped(("d/e", 0, b"text")))}},
    ]
    script = "id -u > $OUT/id; find . ! -user $(id -u) > $OUT/others; cat a/file c/d/e; stat -c %a . > $OUT/mode"
    assert await ran.run(script, mounts=mounts) == ["completed"]
    assert ran.said("id") == f"{user.uid}\n"
    assert ran.said("others") == ""
    assert ran.said("mode") == "700\n"
    assert stat.S_IMODE((ran.work / "caches").stat().st_mode) == 0o700
    assert list((ran.work / "tasks").glob("task-*")) == []


async def test_a_strict_mask_of_the_worker_closes_nothing_to_its_tasks(ran: Ran) -> None:
    mask = os.umask(0o077)
    try:
        assert await ran.run('cat "$HOME/file"', mounts=[{"file": "file", "content": {"raw": "x"}}]) == ["completed"]
    finally:
        os.umask(mask)


async def test_a_cache_is_the_users_own(ran: Ran, user: User) -> None:
    mounts = [{"directory": "c", "cacheName": "one"}]
    assert await ran.run("echo x >> c/it; cp c/it $OUT/", mounts=mounts) == ["completed"]
    assert await ran.run("echo x >> c/it; cp c/it $OUT/", mounts=mounts) == ["completed"]
    assert ran.said("it") == "x\nx\n"
    ran.users = Users([User.of(str(user.uid + 1))])
    assert await ran.run("ls -A c > $OUT/it2", mounts=mounts) == ["completed"]
    assert ran.said("it2") == ""


async def test_nothing_is_started_with_the_tasks_environment_but_its_commands(ran: Ran) -> None:
    """Least of all a process of root's, with a library that the task names."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler")
    source = "#include <unistd.h>\n#include <fcntl.h>\n__attribute__((constructor)) static void go(void)"
    source += f'{{ if (geteuid() == 0) open("{ran.out}/root", O_CREAT|O_WRONLY, 0600); }}\n'
    (ran.out / "evil.c").write_text(source)
    command = [compiler, "-shared", "-fPIC", "-o", str(ran.out / "evil.so"), str(ran.out / "evil.c")]
    await asyncio.to_thread(subprocess.run, command, check=True)
    (ran.out / "evil.so").chmod(0o755)
    env = {"LD_PRELOAD": f"{ran.out}/evil.so"}
    assert await ran.run("echo $LD_PRELOAD > $OUT/set", env=env) == ["completed"]
    assert "evil.so" in ran.said("set")
    assert not (ran.out / "root").exists()


@pytest.mark.parametrize("exit_code", [0, 3], ids=["taken back", "purged"])
async def test_a_link_above_a_cache_leads_root_nowhere(ran: Ran, exit_code: int) -> None:
    private = ran.work.parent / "private"
    (private / "secrets").mkdir(parents=True)
    (private / "secrets" / "key").write_text("root's")
    await ran.run(
        f"mv x y && ln -s {private} x; exit {exit_code}",
        mounts=[{"directory": "x/secrets", "cacheName": "mine"}],
        onExitStatus={"purgeCaches": [3]},
    )
    assert (private / "secrets" / "key").read_text() == "root's"


async def test_a_link_in_a_cache_is_no_way_for_a_mount(ran: Ran) -> None:
    private = ran.work.parent / "private"
    private.mkdir()
    cache = {"directory": "c", "cacheName": "one"}
    assert await ran.run(f"ln -s {private} c/link", mounts=[cache]) == ["completed"]
    for mount in (
        {"file": "c/link/file", "content": {"raw": "x"}},
        {"directory": "c/link/inner", "cacheName": "two"},
        {"directory": "c/link/inner", "format": "zip", "content": {"base64": _base64(zipped(("a", 0, b"x")))}},
    ):
        assert "completed" not in await ran.run("true", mounts=[cache, mount])
    assert list(private.iterdir()) == []


async def test_an_archive_writes_with_the_rights_of_the_user_alone(ran: Ran) -> None:
    """Whatever the checks of archives overlook."""
    private = ran.work.parent / "private"
    private.mkdir(mode=0o700)
    content = zipped(("link", LINK, b"../../../../private"), ("link/evil", 0, b"x"))
    mount = {"directory": "c", "format": "zip", "content": {"base64": _base64(content)}}
    assert "completed" not in await ran.run("true", mounts=[mount])
    assert list(private.iterdir()) == []


async def test_no_program_gives_a_task_more_rights(ran: Ran) -> None:
    """sudo, cron, FUSE: what they start is not ended with the task."""
    assert await ran.run("grep NoNewPrivs /proc/self/status > $OUT/privileges") == ["completed"]
    assert ran.said("privileges").split() == ["NoNewPrivs:", "1"]


@pytest.mark.parametrize("mode", [0o755, 0o711], ids=["", "not readable, so that its folder in /proc is root's"])
async def test_every_process_of_the_user_ends_with_the_task(ran: Ran, open_folder: Path, user: User, mode: int) -> None:
    """Also one that does not descend from the task's commands."""
    program = open_folder / "program"
    shutil.copyfile("/bin/sleep", program)
    program.chmod(mode)
    beside = await asyncio.create_subprocess_exec(program, "600", user=user.uid, group=user.gid, extra_groups=[])
    assert await ran.run("true") == ["completed"]
    assert await asyncio.wait_for(beside.wait(), 30) == -signal.SIGKILL


CHAIN = """
import fcntl, os, time
end = time.monotonic() + 30
held = open("held", "w")
fcntl.flock(held, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
"""
"""Each process has the lock of the one before, so that it is free only when none is left."""


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="it needs a Python that every user may run")
@pytest.mark.parametrize("is_the_tasks", [True, False], ids=["the task's", "its user's"])
async def test_a_process_that_always_is_another_one_is_ended(ran: Ran, user: User, is_the_tasks: bool) -> None:
    (ran.out / "chain.py").write_text(CHAIN)
    script = "true"
    if is_the_tasks:
        script = f"cd $OUT; {PYTHON} chain.py"
    else:
        more: dict[str, Any] = {"user": user.uid, "group": user.gid, "extra_groups": [], "cwd": ran.out}
        await (await asyncio.create_subprocess_exec(PYTHON, "chain.py", **more)).wait()
    assert await ran.run(script) == ["completed"]
    with (ran.out / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


STOPPER = """
import os, signal, time
end = time.monotonic() + 30
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        os.kill(-1, signal.SIGSTOP)
"""


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="it needs a Python that every user may run")
async def test_a_process_that_stops_all_others_is_ended(ran: Ran) -> None:
    (ran.out / "stopper.py").write_text(STOPPER)
    assert "completed" not in await ran.run(f"{PYTHON} $OUT/stopper.py; sleep 600", maxRunTime=1)
    assert await ran.run("true") == ["completed"]


async def test_a_work_directory_that_a_task_could_change_is_refused(open_folder: Path, user: User) -> None:
    work = open_folder / "work"
    work.mkdir()
    os.chown(work, user.uid, user.gid)
    with pytest.raises(PermissionError, match="another user"):
        Folders(work).sweep(is_root_for_others=True)
    os.chown(work, 0, 0)
    work.chmod(0o777)
    with pytest.raises(PermissionError, match="can be changed"):
        Folders(work).sweep(is_root_for_others=True)


async def test_a_user_of_whom_something_is_left_is_not_used(
    open_folder: Path, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders_module, "TRIES", 1)
    folders = Folders(open_folder / "work")
    folders.sweep(is_root_for_others=True)
    async with folders.one("first", user):
        with pytest.raises(BlockingIOError):
            await folders.one("second", user).__aenter__()
    async with folders.one("second", user):
        pass


async def test_what_a_task_has_mounted_in_its_folder_stays_where_it_is(ran: Ran) -> None:
    """In a namespace of its own, where it is root."""
    (ran.out / "kept").touch()
    script = "mkdir here && mount --rbind $OUT here && touch $OUT/mounted; (setsid sleep 600 &)"
    if "completed" not in await ran.run(f"export OUT; unshare -Urm sh -c '{script}'; [ -e $OUT/mounted ]"):
        pytest.skip("users can make no namespaces here")
    assert (ran.out / "kept").exists()
    assert [path.suffix for path in (ran.work / "tasks").iterdir()] == [".lock"]


async def test_no_task_locks_what_the_worker_locks(ran: Ran, user: User) -> None:
    locks = f"{ran.work}/tasks/user-{user.uid}.lock {ran.work}/tasks/task-0.lock"
    assert await ran.run(f"for lock in {locks}; do [ -e $lock ] || exit 1; ! (: < $lock) || exit 1; done") == [
        "completed"
    ]


# The helper


@pytest.fixture
def folder(open_folder: Path, user: User) -> Path:
    folder = open_folder / "task"
    folder.mkdir()
    os.chown(folder, user.uid, user.gid)
    (folder / "secret").write_text("root's")
    (folder / "secret").chmod(0o600)
    (folder / "shown").write_text("everybody's")
    os.mkfifo(folder / "pipe")
    return folder


async def test_files_are_opened_with_the_rights_of_the_user(folder: Path, user: User) -> None:
    """A second name of another's file, say."""
    async with helping(folder, user) as helper:
        with await helper.open("shown") as file:
            assert file.read() == b"everybody's"
        for path, reason in {
            "secret": "file-not-readable-on-worker",
            "pipe": "invalid-resource-on-worker",
            "gone": "file-missing-on-worker",
        }.items():
            with pytest.raises(Unusable) as refused:
                await helper.open(path)
            assert refused.value.reason == reason
        assert await helper.files_below(".") == ["pipe", "secret", "shown"]


async def test_it_has_little_memory_and_no_environment(folder: Path, user: User) -> None:
    async with helping(folder, user) as helper:
        await helper.files_below(".")
        process = Path(f"/proc/{helper._process.pid}")
        limits = {line[:26].strip(): line[26:].split() for line in (process / "limits").read_text().splitlines()}
        assert limits["Max address space"][:2] == [str(MEMORY)] * 2
        assert (process / "environ").read_bytes() == b""
        assert f"\nUid:\t{user.uid}\t{user.uid}\t{user.uid}\t{user.uid}\n" in (process / "status").read_text()


async def test_a_helper_that_is_killed_is_a_shortage(folder: Path, user: User) -> None:
    async with helping(folder, user) as helper:
        helper._process.kill()
        with pytest.raises(OSError, match="memory"):
            await helper.files_below(".")


async def test_work_on_files_ends_with_its_run(folder: Path, user: User) -> None:
    """However long it would take."""
    started: list[int] = []

    async def work() -> None:
        async with helping(folder, user) as helper:
            started.append(helper._process.pid)
            receiving, _ = os.pipe()  # nothing ever comes
            with os.fdopen(receiving, "rb") as content:
                await helper.write(content, None, "file")

    working = asyncio.create_task(work())
    await until((folder / "file").exists)
    working.cancel()
    await asyncio.wait([working])
    assert has_ended(started[0])


def test_a_worker_without_the_rights_for_it_says_so_before_it_takes_a_task(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("CapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n")
    check_rights(status)  # what engines of containers give
    status.write_text("CapPrm:\t00000000a80425fb\nCapEff:\t000000000000004b\n")
    with pytest.raises(PermissionError, match=r"capabilities kill, setuid$"):
        check_rights(status)


# Names


def test_users_by_name_number_and_range() -> None:
    assert [user.uid for user in listed("10001-10003,10002,nobody")] == [10001, 10002, 10003, 65534]
    assert listed("65534") == (User("nobody", 65534, User.of("nobody").gid),)
    assert listed("4000000001") == (User("4000000001", 4000000001, 4000000001),)


@pytest.mark.parametrize("text", ["0", "root", "0-3", "5-4", "1-100000", ""])
def test_users_that_cannot_be(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        listed(text)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
