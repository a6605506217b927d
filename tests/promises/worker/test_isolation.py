"""What a task reaches, and what it leaves: the table of docs/security.md. Each test is run in both ways of working."""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local.stacks import wait
from tests.promises.worker.double import LOG, TOKEN, FakeQueue, Working, fake_queue, shell, working
from tests.promises.worker.test_archives import LINK, zipped
from tests.promises.worker.test_run import daemon, has_ended
from worker.users import PROCESSES, User, check_rights

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes in /proc")
PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="it needs a Python that every user may run")


@dataclass
class Site:
    """A worker, and where its tasks can write."""

    queue: FakeQueue
    worker: Working
    folder: Path
    user: User | None

    @property
    def out(self) -> Path:
        """A directory that every user can change."""
        return self.folder / "out"

    def run(self, script: str, *scopes: str, **payload: Any) -> str:
        """Runs a task that has to complete; its log."""
        task_id = self.queue.add(shell(f"OUT={self.out}; {script}", **payload), *scopes)
        assert self.queue.ended(task_id) == "completed", self.queue.log(task_id) + self.worker.said
        return self.queue.log(task_id)


@pytest.fixture(scope="module", params=["one user", "task user"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yields a worker of each kind, which the tests of this module share."""
    user = None if request.param == "one user" else User.of(str(2_000_000_000 + 10 * os.getpid() + 1))
    if user is not None and os.getuid() != 0:
        pytest.skip("only root can do something as another user")
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    for name, mode in (("", 0o755), ("out", 0o777), ("private", 0o700)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name).chmod(mode)
    (folder / "private" / "key").write_text("root's")
    more = [] if user is None else ["--task-user", str(user.uid)]
    with fake_queue() as queue, working(queue, folder, *more) as worker:
        yield Site(queue, worker, folder, user)
    assert worker.process.returncode == 0, worker.said
    shutil.rmtree(folder)


def test_a_task_is_its_user_and_nobody_else(site: Site) -> None:
    mounts = [
        {"file": "a/file", "content": {"raw": "text"}},
        {"directory": "b/cache", "cacheName": "one"},
        {"directory": "c", "format": "zip", "content": {"base64": _base64(zipped(("d/e", 0, b"text")))}},
    ]
    script = """echo id $(id -u) $(id -G); find . ! -user $(id -u); cat a/file c/d/e; stat -c 'mode %a' .
        grep -E '^(Cap(Prm|Eff)|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '; ls /proc/self/fd; nice
        grep -E 'Max (processes|msgqueue)' /proc/self/limits"""
    log = site.run(script, "generic-worker:cache:*", mounts=mounts)
    expected = os.getuid() if site.user is None else site.user.uid
    assert f"\nid {expected} " in log
    assert "\ntexttextmode 700\n" in log
    if site.user is not None:
        assert f"\nid {expected} {site.user.gid}\n" in log
        assert f"\nCapPrm: {0:016}\nCapEff: {0:016}\nNoNewPrivs: 1\n0\n1\n2\n3\n10\n" in log
        assert f"Max processes             {PROCESSES} " in log
        assert os.path.ismount("/dev/mqueue") or "Max msgqueue size         0 " in log, "nobody could remove them"


def test_the_token_and_the_claims_credentials(site: Site) -> None:
    """A task finds them in no process, by nothing that the system tells of one."""
    script = f"""cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2> $OUT/errors | tr '\\0' '\\n' | grep -a {TOKEN[:-1]}
        grep -aE '{TOKEN[:-1]}.|token-of-the-clai.' /proc/{site.worker.process.pid}/mem; ls -l /proc/$PPID/fd; true"""
    log = site.run(script)
    is_read = site.user is None and os.getuid() == 0
    assert (TOKEN in log) == is_read, "one user: only root may look into a process that is hidden"
    assert "token-of-the-claim" not in log.replace(TOKEN, "")
    assert ("socket:" in log) == is_read


def test_the_worker_and_its_guard(site: Site) -> None:
    pids = f"{site.worker.process.pid} {site.worker.guard}"
    script = (
        f"for pid in {pids} $PPID; do kill -0 $pid && echo reached $pid; done; head -c 1 {site.folder}/work/lock; true"
    )
    reached = [line for line in site.run(script).splitlines() if line.startswith("reached")]
    assert len(reached) == (3 if site.user is None else 1), "its own process it may end"


CHAIN = """
import fcntl, os, time
end = time.monotonic() + 30
held = open(os.environ["HELD"], "w")
fcntl.flock(held, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
"""
"""Each process has the lock of the one before, so that it is free only when none is left."""
STOPPER = """
import os, signal, time
end = time.monotonic() + 30
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        os.kill(-1, signal.SIGSTOP)
"""


@needs_python
@pytest.mark.parametrize("kind", ["daemon", "chain", "stopper", "beside"])
def test_no_process_outlives_its_task(site: Site, kind: str) -> None:
    if kind != "daemon" and site.user is None:
        pytest.skip("without a user of their own nothing tells such processes from others at once")
    held = site.out / "held"
    if kind == "daemon":
        site.run(daemon(site.out, PYTHON))
        assert has_ended(int((site.out / "daemon").read_text(encoding="utf-8")))
    elif kind == "chain":
        site.run(f"{PYTHON} -c '{CHAIN}'", env={"HELD": str(held)})
        with held.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif kind == "stopper":
        task_id = site.queue.add(shell(f"{PYTHON} -c '{STOPPER}'; sleep 60", maxRunTime=1))
        assert site.queue.ended(task_id) == "failed"
    else:  # it does not descend from the task's commands; its folder in /proc is root's, since it cannot be read
        assert site.user is not None
        program = site.folder / "program"
        shutil.copyfile("/bin/sleep", program)
        program.chmod(0o711)
        more: dict[str, Any] = {"user": site.user.uid, "group": site.user.gid, "extra_groups": [], "cwd": "/"}
        with subprocess.Popen([program, "600"], **more) as beside:
            site.run("true")
            assert beside.wait(30) == -signal.SIGKILL
    site.run("true")


@needs_python
def test_what_an_earlier_task_has_left(site: Site) -> None:
    """What a task leaves where anybody can (shared folders, System V's objects) is gone before the next one."""
    code = (
        "import ctypes, os; libc, key = ctypes.CDLL(None), 4711 + os.getuid(); "
        "print('ipc', libc.shmget(key, 9, 0o1666), libc.semget(key, 1, 0o1666), libc.msgget(key, 0o1666))"
    )
    name = f"left-{os.getpid()}"
    script = f"for each in /tmp /var/tmp /dev/shm; do mkdir -p $each/{name}/deep; touch $each/{name}/deep/it; done"
    site.run(f'{script}; {PYTHON} -c "{code}"; echo secret > secret; readlink -f secret > $OUT/secret')
    look = f"ls -d /tmp/{name} /var/tmp/{name} /dev/shm/{name}; cat $(cat $OUT/secret)"
    log = site.run(f'{look}; {PYTHON} -c "{code.replace("0o1666", "0o666")}"; true')
    for each in (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")):
        assert (f"\n{each / name}\n" in log) == (site.user is None)
        shutil.rmtree(each / name, ignore_errors=True)
    if site.user is not None:
        assert "\nipc -1 -1 -1\n" in log
    assert "\nsecret\n" not in log, "its folder is gone"


def test_a_cache_without_its_scope(site: Site) -> None:
    mounts = [{"directory": "c", "cacheName": "mine"}]
    site.run("echo x >> c/it", "generic-worker:cache:mine", mounts=mounts)
    log = site.run("cat c/it; echo x >> c/it", "generic-worker:cache:m*", mounts=mounts)
    assert "\nx\n" in log, "with it the next task finds what was left"
    task_id = site.queue.add(shell("cat c/it", mounts=mounts), "generic-worker:cache:other")
    assert site.queue.ended(task_id) == "malformed-payload"
    log = site.run(f"cat {site.folder}/work/caches/*/it && echo reached; true")
    assert ("\nreached\n" in log) == (site.user is None)


def test_what_is_roots(site: Site) -> None:
    """A task reaches nothing of root's by links in its folder and caches, archives, artifacts, or libraries that its
    environment names."""
    private, cache = site.folder / "private", {"directory": "x/secrets", "cacheName": "trap"}
    caches = "generic-worker:cache:*"
    site.run(f"mv x y && ln -s {private.parent} x; mkdir x/secrets 2> /dev/null; true", caches, mounts=[cache])
    site.run(f"ln -s {private} c/link", caches, mounts=[{"directory": "c", "cacheName": "links"}])
    archive = {"format": "zip", "content": {"base64": _base64(zipped(("a", 0, b"x"), ("l", LINK, b"../../private")))}}
    for mount in (
        {"file": "c/link/file", "content": {"raw": "x"}},
        {"directory": "c/link/inner", "cacheName": "two"},
        {"directory": "c/link/inner", **archive},
        {"directory": "d", **archive},
    ):
        more = {"mounts": [{"directory": "c", "cacheName": "links"}, mount]}
        assert site.queue.ended(site.queue.add(shell("echo not to be run", **more), caches)) == "failed"
    assert [path.name for path in private.iterdir()] == ["key"]
    script = f"ln -s {private}/key link; ln {private}/key hard; ln -s /etc etc; mkfifo pipe; true"
    names = ("link", "hard", "etc/hostname", "pipe")
    task_id = site.queue.add(shell(script, artifacts={name: name for name in names}))
    assert site.queue.ended(task_id) == "failed"
    stored = {path for path in site.queue.blobs if task_id in path and LOG not in path}
    assert stored == (set() if site.user is not None else {f"/blob/{task_id}/hard"})


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_nothing_is_started_with_the_tasks_environment_but_its_commands(site: Site) -> None:
    source = "#include <unistd.h>\n#include <fcntl.h>\n__attribute__((constructor)) static void go(void)"
    source += f'{{ if (getenv("TASK_ID") == 0) open("{site.out}/loaded", O_CREAT|O_WRONLY, 0600); }}\n'
    (site.out / "evil.c").write_text(f"#include <stdlib.h>\n{source}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "evil.so", "evil.c"], cwd=site.out, check=True)
    assert "evil.so\n" in site.run("echo $LD_PRELOAD", env={"LD_PRELOAD": f"{site.out}/evil.so"})
    assert not (site.out / "loaded").exists()


def test_no_signature_is_in_any_log(site: Site) -> None:
    """The signatures of URLs that fail or lead nowhere are in no log."""
    site.queue.refused["away"] = 503
    mount = {"file": "a", "content": {"url": "http://me:SECRET@127.0.0.1:9/private?sig=SECRET"}}
    task_id = site.queue.add(shell("true", mounts=[mount], maxRunTime=1))
    assert site.queue.ended(task_id) in ("intermittent-task", "failed")
    wait(lambda: "http://127.0.0.1:9/private?…" in site.queue.log(task_id))
    assert "SECRET" not in site.queue.log(task_id) + site.worker.said
    assert "signature-of-a-url" not in site.queue.log(task_id) + site.worker.said


def test_what_a_task_mounts_in_namespaces_of_its_own(site: Site) -> None:
    (site.out / "kept").touch()
    script = "mkdir here && mount --rbind $OUT here && touch $OUT/mounted; (setsid sleep 600 &)"
    site.run(f"export OUT; unshare -Urm sh -c '{script}'; true")
    assert (site.out / "kept").exists()
    wait(lambda: not list((site.folder / "work" / "tasks").iterdir()))


def test_a_worker_without_the_rights_for_it_says_so_before_it_takes_a_task(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("CapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n")
    check_rights(status)  # what engines of containers give
    status.write_text("CapPrm:\t00000000a80425fb\nCapEff:\t000000000000004b\n")
    with pytest.raises(PermissionError, match=r"capabilities kill, setuid$"):
        check_rights(status)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
