"""The token of a worker: how it comes, and that no task of the image's worker reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local.stacks import wait
from tests.promises.worker.double import TOKEN, fake_queue
from tests.promises.worker.test_image import LAST
from tools.local.state import ROOT
from worker.options import access_token

FILE = "TASKCLUSTER_ACCESS_TOKEN_FILE"


def test_how_it_comes(tmp_path: Path) -> None:
    """The token comes by a variable, by a file that is gone afterwards, or by a descriptor."""
    assert access_token({"TASKCLUSTER_ACCESS_TOKEN": TOKEN}, is_user_shared=True) == TOKEN
    assert access_token({}, is_user_shared=True) == ""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n", encoding="utf-8")
    assert access_token({FILE: str(path)}, is_user_shared=True) == TOKEN
    assert not path.exists()
    receiving, sending = os.pipe()
    os.write(sending, TOKEN.encode())
    os.close(sending)
    assert access_token({FILE: f"/dev/fd/{receiving}"}, is_user_shared=True) == TOKEN
    os.close(receiving)
    with pytest.raises(ValueError, match="not both"):
        access_token({FILE: str(tmp_path), "TASKCLUSTER_ACCESS_TOKEN": TOKEN}, is_user_shared=True)


@pytest.fixture
def lasting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a file that the worker cannot remove, as where secrets are mounted."""

    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return path


@pytest.mark.parametrize(("mode", "is_user_shared"), [(0o600, True), (0o644, False), (0o640, False)])
def test_a_file_that_tasks_could_read_is_refused(lasting: Path, mode: int, is_user_shared: bool) -> None:
    lasting.chmod(mode)
    with pytest.raises(ValueError, match="tasks could read it"):
        access_token({FILE: str(lasting)}, is_user_shared=is_user_shared)


def test_a_file_that_only_the_worker_can_read_may_stay(lasting: Path) -> None:
    lasting.chmod(0o400)
    assert access_token({FILE: str(lasting)}, is_user_shared=False) == TOKEN


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=str(path)):
        access_token({FILE: str(path)}, is_user_shared=True)


# In a container


CAPABILITIES = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod"
"""What root of a container has: not the one by which the memory of any process can be read."""

CONTAINER = """
"$@" & worker=$!
until [ -e "$OUT/begun" ]; do kill -0 $worker || exit 1; sleep 0.05; done
"$PYTHON" -m worker --help > /dev/null
touch "$OUT/checked"
wait $worker
"""
"""Stands for tini, the first process of the container, and for what an engine starts in it."""

SPY = f"""
look() {{ cat /proc/[0-9]*/environ $OUT/../token 2>/dev/null < /dev/null | tr '\\0' '\\n' | grep -a {TOKEN}; }}
touch $OUT/begun; id -u > $OUT/user
until [ -e $OUT/checked ]; do look; done > $OUT/seen; look >> $OUT/seen; true
"""


def contained(command: Sequence[str], **more: Any) -> tuple[int, str]:
    """Runs a command as a container's first process: its root and its processes are those of namespaces of its own.

    The exit code, and what it has said.
    """
    entering = 'read -r mapped && mount -t proc proc /proc && exec "$@"'
    unshare = ["unshare", "--user", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", entering, "sh", *command]
    with subprocess.Popen(unshare, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more) as process:
        own, its = Path("/proc/self/ns/user").readlink(), Path(f"/proc/{process.pid}/ns/user")
        wait(lambda: process.poll() is not None or its.readlink() != own)
        if process.poll() is None:
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{process.pid}/{name}").write_text("0 0 65536")
        _, log = process.communicate("mapped\n", timeout=120)
    return process.returncode, log


@pytest.fixture
def namespaces() -> None:
    if sys.platform != "linux" or os.getuid() != 0 or None in map(shutil.which, ("unshare", "setpriv", "mount")):
        pytest.skip("only root can make namespaces with several user")
    if contained(["true"])[0] != 0:
        pytest.skip("no namespaces can be made here")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    ("way", "user", "is_read"),
    [
        pytest.param("variable", None, False, id="the image"),
        pytest.param("variable", "", True, id="one user", marks=pytest.mark.large),
        pytest.param("file", "", False, id="one user, by a file", marks=pytest.mark.large),
    ],
)
def test_what_a_task_reads_of_it(open_folder: Path, way: str, user: str | None, is_read: bool) -> None:
    """The image's own command line, in namespaces and with the capabilities that it has in a container."""
    words = LAST.words("ENTRYPOINT")
    command = [sys.executable, *words[words.index("--") + 2 :]]
    out, work = open_folder / "out", open_folder / "work"
    out.mkdir()
    out.chmod(0o777)
    shutil.copytree(ROOT / "worker", open_folder / "opt" / "worker")
    environment = {**LAST.environment, "PATH": os.environ["PATH"], "OUT": str(out), "PYTHON": sys.executable}
    environment |= {"WORKER_WORK_DIR": str(work), "HOME": str(work)}
    environment |= {"WORKER_TASK_QUEUE_ID": "a/b", "WORKER_GROUP": "g", "WORKER_POLL_MODE": "claim-work"}
    environment |= {"TASKCLUSTER_CLIENT_ID": "me", "WORKER_ID": "me", "WORKER_MAX_TASKS": "1"}
    work.mkdir(mode=0o711)
    if user is not None:
        environment["WORKER_TASK_USER"] = user
    if way == "variable":
        environment["TASKCLUSTER_ACCESS_TOKEN"] = TOKEN
    else:
        (open_folder / "token").write_text(TOKEN)
        environment[FILE] = str(open_folder / "token")
    with fake_queue() as queue:
        task_id = queue.add({"command": ["sh", "-c", SPY], "maxRunTime": 120, "env": {"OUT": str(out)}})
        environment["TASKCLUSTER_ROOT_URL"] = queue.url
        bounding = "-all," + ",".join(f"+{name}" for name in CAPABILITIES.split(","))
        setpriv = ["setpriv", "--bounding-set", bounding, "--inh-caps=-all"]
        inside = [*setpriv, "sh", "-c", CONTAINER, "tini", *command]
        _, log = contained(inside, cwd=open_folder / "opt", env=environment)
    assert queue.reports[task_id] == ["completed"], log
    assert (TOKEN in (out / "seen").read_text(encoding="utf-8")) == is_read
    assert ("tasks run as the worker's own user" in log) == (user == "")
    assert ((out / "user").read_text(encoding="utf-8") == "0\n") == (user == "")
