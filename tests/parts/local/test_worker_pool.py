"""Workers that come and go by themselves: how many are started, when, and what is left of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tools.local.child import Child
from tools.local.worker_pool import PoolOptions, WorkerPool

ENVIRONMENT = {
    "TASKCLUSTER_ROOT_URL": "https://tc.example.com",
    "TASKCLUSTER_CLIENT_ID": "me",
    "TASKCLUSTER_ACCESS_TOKEN": "secret",
}


@dataclass
class Played:
    """A process that ends when the test says so."""

    name: str
    log: Path
    code: int | None = None
    asked: list[str] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.code

    def tail(self) -> str:
        return "its last lines"

    def terminate(self) -> None:
        self.asked.append("terminate")

    def stop(self, grace: float = 10) -> None:
        self.asked.append("stop")


class Stage:
    """A pool whose processes are played."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.played: list[Played] = []
        self.arguments: list[list[str]] = []
        wanted = PoolOptions(task_queue_id="a/b", **options)
        self.pool = WorkerPool(wanted, folder, folder, ENVIRONMENT, start=self.start)

    def start(self, name: str, argv: list[str], *, log: Path, env: Mapping[str, str], cwd: Path) -> Child:
        log.write_text("")
        self.arguments.append(argv)
        self.played.append(Played(name, log))
        return cast("Child", self.played[-1])


def test_each_look_starts_what_is_unresolved_less_what_is_running(tmp_path: Path) -> None:
    stage = Stage(tmp_path, maximum=4)
    seen = [stage.pool.look(unresolved) for unresolved in (0, 2, 2, 3, 9, 9)]
    assert [(look.running, look.started) for look in seen] == [(0, 0), (0, 2), (2, 0), (2, 1), (3, 1), (4, 0)]
    stage.played[0].code = 0
    assert stage.pool.look(9).started == 1
    assert not stage.played[0].log.exists(), "of a worker that ended by itself nothing is left"


def test_a_load_that_cannot_be_read_starts_nothing_and_ends_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.pool.look(2)
    assert stage.pool.look(None).started == 0
    assert [played.asked for played in stage.played] == [[], []]


def test_a_worker_that_fails_is_reported_and_replaced(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.pool.look(1)
    stage.played[0].code = 1
    look = stage.pool.look(1)
    assert (look.started, look.failed) == (1, ("worker-1 ended with exit code 1:\nits last lines",))
    assert stage.played[1].name == "worker-2", "ids are never used again: the queue may still know the first"


def test_all_workers_are_asked_to_end_before_any_is_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.pool.look(3)
    order: list[str] = []
    for played in stage.played:
        played.asked = order
    stage.pool.end()
    assert order == ["terminate"] * 3 + ["stop"] * 3
    assert stage.pool.workers == {}


def test_each_worker_has_a_folder_that_goes_with_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.pool.look(3)
    assert all((tmp_path / name).is_dir() for name in ("worker-1", "worker-2", "worker-3"))
    (tmp_path / "worker-1" / "left").touch()
    stage.played[0].code = 0
    stage.pool.look(0)
    assert not (tmp_path / "worker-1").exists()
    stage.pool.end()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
