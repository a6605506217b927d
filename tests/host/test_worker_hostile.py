"""Tasks that mean harm, or do it by accident: what is left of them, and what they get to see."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from tests.host.service import Service, eventually
from tests.host.worker_support import LOG, SECONDS, artifact, names, shell, working
from tests.worker.test_process import DAEMON, has_ended

USER, OTHER_USER = "nobody", "daemon"
"""One for each test: what a user runs is ended between tasks, and tests run side by side."""
needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="only root can run tasks as another user"
)


def ends(service: Service, task_id: str) -> str:
    """How a task ends."""
    return str(eventually(lambda: service.status(task_id)["runs"][-1].get("reasonResolved"), SECONDS))


def test_daemons_and_files_do_not_outlive_their_task(service: Service, tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    seen = tmp_path / "seen"
    script = f"{sys.executable} -I -S {tmp_path}/daemon.py; until [ -s daemon ]; do sleep 0.02; done; cp daemon {seen}"
    task_id = service.create(payload=shell(f"{script}; mkdir deep; chmod 0 deep"))
    with working(service, tmp_path):
        assert ends(service, task_id) == "completed"
        assert eventually(lambda: has_ended(int(seen.read_text())), SECONDS)
        assert eventually(lambda: not list((tmp_path / "tasks").iterdir()), SECONDS)


def test_a_task_that_removes_its_folder_has_failed_and_its_worker_goes_on(service: Service, tmp_path: Path) -> None:
    script = 'echo last words; rm -rf "$HOME" "$HOME/.."'
    task_id = service.create(payload=shell(script, artifacts={"public/a": "a"}))
    with working(service, tmp_path):
        assert ends(service, task_id) == "failed"
        assert ends(service, service.create(payload=shell("true"))) == "completed"
    assert "\nlast words\n" in artifact(service, task_id, LOG)


def test_a_task_does_not_choose_what_it_is_told_of_itself(service: Service, tmp_path: Path) -> None:
    forged = {"TASK_ID": "forged", "TASKCLUSTER_ROOT_URL": "https://example.com", "HOME": "/elsewhere"}
    task_id = service.create(payload=shell("env", env=forged))
    with working(service, tmp_path):
        assert ends(service, task_id) == "completed"
    log = artifact(service, task_id, LOG)
    assert f"\nTASK_ID={task_id}\n" in log
    assert f"\nTASK_GROUP_ID={task_id}\n" in log
    assert "\nHOME=/elsewhere\n" in log
    assert "example.com" not in log
    assert "TASKCLUSTER_ACCESS_TOKEN" not in log


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A work directory that every user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def left_of(task_ids: Iterable[str]) -> list[int]:
    """The processes that tasks have started, by what they were told of themselves."""
    told, found = [f"TASK_ID={task_id}\0".encode() for task_id in task_ids], []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is a container's first process
            environment = (path / "environ").read_bytes()
            if any(each in environment for each in told):
                found.append(int(path.name))
    return found


@needs_root
def test_a_task_of_another_user_reaches_neither_the_worker_nor_others(
    service: Service, tmp_path: Path, open_folder: Path
) -> None:
    secret = open_folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    script = f"""
        id -un; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep TOKEN; cat {secret} ..; ls {open_folder}/tasks
        setsid sleep 300 > /dev/null 2>&1 & echo $! > pid; (ln {secret} leak || ln -s {secret} leak)
        ls cache; echo x >> cache/kept"""
    artifacts = {"public/pid": "pid", "public/leak": "leak"}
    mounts = [{"directory": "cache", "cacheName": "c"}]
    more = ["--task-users", USER, "--work-dir", str(open_folder)]
    task_ids = []
    with working(service, tmp_path, *more):
        for _ in range(2):
            task_id = service.create(
                payload=shell(script, artifacts=artifacts, mounts=mounts), scopes=["generic-worker:cache:c"]
            )
            task_ids.append(task_id)
            assert ends(service, task_id) == "failed", "for its artifact that leads out"
            log = artifact(service, task_id, LOG)
            assert f"\n{USER}\n" in log
            assert "TOKEN" not in log
            assert "\nsecret" not in log
            assert eventually(lambda: has_ended(int(artifact(service, task_id, "public/pid"))), SECONDS)  # noqa: B023
    assert "\nkept\n" in log, "the cache is the next task's, too"
    assert set(names(service, task_id)) >= {"public/pid", "public/leak"}
    eventually(lambda: not left_of(task_ids), SECONDS)


@needs_root
def test_the_proxy_of_a_task_serves_its_user_alone(service: Service, tmp_path: Path, open_folder: Path) -> None:
    (open_folder / "shared").mkdir(mode=0o777)
    (open_folder / "shared").chmod(0o777)
    url, go_on = open_folder / "shared" / "url", open_folder / "shared" / "go-on"
    fetch = "python3 -c 'import sys,urllib.request as r; print(r.urlopen(sys.argv[1]).status)'"
    call = f"{fetch} $TASKCLUSTER_PROXY_URL/api/queue/v1/ping"
    script = f"{call}; echo $TASKCLUSTER_PROXY_URL > {url}; until [ -e {go_on} ]; do sleep 0.05; done"
    task_id = service.create(payload=shell(script, features={"taskclusterProxy": True}))
    with working(service, tmp_path, "--task-users", OTHER_USER, "--work-dir", str(open_folder)):
        proxy = eventually(lambda: url.read_text().strip() if url.exists() else None, SECONDS)
        assert requests.get(f"{proxy}/api/queue/v1/ping", timeout=30).status_code == 403
        go_on.touch()
        assert ends(service, task_id) == "completed"
    assert "\n200\n" in artifact(service, task_id, LOG)
