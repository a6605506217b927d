"""The reference worker against the service: what becomes of tasks, and of their processes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.promises.host.service import Service, eventually
from tests.promises.host.worker_support import LOG, SECONDS, artifact, run_of, shell, wait_for_file, working
from tests.promises.host.workers import MODES, start_worker

ENDINGS = {
    "completed": (shell("true"), "completed", "completed"),
    "exit code": (shell("exit 3"), "failed", "failed"),
    "signal": (shell("kill -TERM $$"), "failed", "failed"),
    "time limit": (shell("sleep 60", maxRunTime=0.5), "failed", "failed"),
    "no command": ({"command": []}, "exception", "malformed-payload"),
    "no such program": ({"command": ["no-such-program"]}, "exception", "malformed-payload"),
}


@pytest.mark.parametrize("mode", MODES)
def test_how_tasks_end(service: Service, tmp_path: Path, mode: str) -> None:
    ids = {name: service.create(payload=payload) for name, (payload, _, _) in ENDINGS.items()}
    with working(service, tmp_path, mode=mode):
        for name, (_, state, reason) in ENDINGS.items():
            status = service.wait_for(ids[name], state, SECONDS)
            assert [(run["reasonResolved"], run["workerId"]) for run in status["runs"]] == [(reason, "one")], name


def test_a_claim_is_kept_for_as_long_as_the_task_takes(hasty: Service, tmp_path: Path) -> None:
    task_id = hasty.create(payload=shell("sleep 5"))
    with working(hasty, tmp_path):
        status = hasty.wait_for(task_id, "completed", SECONDS)
    assert len(status["runs"]) == 1, "though claims last 2 seconds"


def test_a_task_that_is_cancelled_is_stopped_and_forgotten(hasty: Service, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    task_id = hasty.create(payload=shell(f"while true; do echo beat >> {beats}; sleep 0.05; done"))
    with working(hasty, tmp_path) as child:
        wait_for_file(beats)
        hasty.queue.cancelTask(task_id)
        eventually(lambda: f"{task_id}/0: lost" in child.output(), SECONDS)
        size = beats.stat().st_size
        follower = hasty.create(payload=shell("sleep 0.3"))
        hasty.wait_for(follower, "completed", SECONDS)
        assert beats.stat().st_size == size, "the process has ended"
    assert run_of(hasty, task_id)["reasonResolved"] == "canceled"


def test_a_worker_that_is_asked_to_end_gives_its_tasks_back(service: Service, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    task_id = service.create(payload=shell(f"while true; do echo beat >> {beats}; sleep 0.05; done"))
    with working(service, tmp_path) as child:
        wait_for_file(beats)
        child.terminate()
        assert child.wait(SECONDS) == 0
        size = beats.stat().st_size
    assert run_of(service, task_id)["reasonResolved"] == "worker-shutdown"
    assert service.status(task_id)["state"] == "pending", "the retry, at once"
    assert beats.stat().st_size == size


@pytest.mark.parametrize("mode", MODES)
def test_it_ends_by_itself_when_there_is_no_more_work(service: Service, tmp_path: Path, mode: str) -> None:
    ids = [service.create(payload=shell("true")) for _ in range(3)]
    with working(service, tmp_path, "--idle-timeout", "0", mode=mode) as child:
        assert child.wait(SECONDS) == 0
        assert "no task for 0 seconds" in child.output()
    assert {service.status(task_id)["state"] for task_id in ids} == {"completed"}


def test_it_is_idle_only_while_it_runs_nothing_and_for_as_long_as_it_is_told(service: Service, tmp_path: Path) -> None:
    """A worker is idle only while it runs nothing: a task that takes longer than the idle time does not end it."""
    task_id = service.create(payload=shell("sleep 1.5"))
    with working(service, tmp_path, "--idle-timeout", "0.5") as child:
        assert child.wait(SECONDS) == 0
        moments = {
            event: datetime.fromisoformat(line[:23].replace(",", "."))
            for line in child.output().splitlines()
            for event in (f"{task_id}/0: completed", "no task for 0.5 seconds")
            if event in line
        }
    idle = moments["no task for 0.5 seconds"] - moments[f"{task_id}/0: completed"]
    assert idle >= timedelta(seconds=0.4), "a worker that ends with each task would be started for each"


def test_it_takes_one_at_a_time_and_ends_after_as_many_as_it_may_take(service: Service, tmp_path: Path) -> None:
    order = tmp_path / "order"
    script = shell(f"echo in >> {order}; sleep 0.2; echo out >> {order}")
    ids = [service.create(payload=script) for _ in range(3)]
    with working(service, tmp_path, "--max-tasks", "2") as child:
        assert child.wait(SECONDS) == 0
    assert order.read_text().split() == ["in", "out"] * 2
    assert sorted(service.status(task_id)["state"] for task_id in ids) == ["completed", "completed", "pending"]


def test_the_task_of_a_worker_that_died_is_retried_by_another(hasty: Service, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    script = f'echo "run $RUN_ID" >> {beats}; [ $RUN_ID = 1 ] || while true; do echo beat >> {beats}; sleep 0.05; done'
    task_id = hasty.create(payload=shell(script))
    with working(hasty, tmp_path) as child:
        wait_for_file(beats)
        child.kill()
    with working(hasty, tmp_path, name="two"):
        status = hasty.wait_for(task_id, "completed", SECONDS)
    assert [(run["reasonResolved"], run["workerId"]) for run in status["runs"]] == [
        ("claim-expired", "one"),
        ("completed", "two"),
    ]
    assert beats.read_text().split("run 1\n")[1] == "", "the first process has died with its worker"


def test_without_the_right_to_poll_it_ends_and_says_why(service: Service, tmp_path: Path) -> None:
    unknown = {"TASKCLUSTER_CLIENT_ID": "nobody", "TASKCLUSTER_ACCESS_TOKEN": "a" * 22}
    for mode in MODES:
        child = start_worker(service.running.stack, service.pool, mode, logs=tmp_path, mode=mode, environment=unknown)
        assert child.wait(SECONDS) == 1
        assert "does not let this worker ask for work" in child.output()
        child.stop()


def test_files_that_the_payload_names_become_artifacts(service: Service, tmp_path: Path) -> None:
    script = "mkdir out; printf 'a file' > out/file.txt; : > empty; head -c 3000000 /dev/zero | tr '\\0' x > large.json"
    artifacts = {"public/file.txt": "out/file.txt", "private/empty": "empty", "public/large.json": "large.json"}
    task_id = service.create(payload=shell(script, artifacts=artifacts))
    with working(service, tmp_path):
        service.wait_for(task_id, "completed", SECONDS)
    assert artifact(service, task_id, "public/file.txt") == "a file"
    assert artifact(service, task_id, "private/empty") == ""
    assert artifact(service, task_id, "public/large.json") == "x" * 3_000_000
    types = {each["name"]: each["contentType"] for each in service.queue.listArtifacts(task_id, 0)["artifacts"]}
    assert types == {
        LOG: "text/plain; charset=utf-8",
        "public/logs/live_backing.log": "text/plain; charset=utf-8",
        "public/file.txt": "text/plain",
        "private/empty": "application/octet-stream",
        "public/large.json": "application/json",
    }
