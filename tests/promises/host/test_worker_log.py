"""The reference worker's log: live, byte for byte, complete or with its middle left out, whatever ends the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.promises.host.service import Service, eventually
from tests.promises.host.worker_support import (
    BACKING,
    LOG,
    SECONDS,
    artifact,
    content,
    log_with,
    names,
    run_of,
    shell,
    wait_for_file,
    working,
)
from tools.local.child import Child

LIVELY = ("--log-seconds", "0.3")


def test_the_log_grows_by_what_has_come_and_ranges_of_it_can_be_read(served: Service, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    task_id = served.create(payload=shell(f"echo first; until [ -e {go_on} ]; do sleep 0.05; done; echo last"))
    seen = log_with(served, task_id, "\nfirst\n").encode()
    assert served.status(task_id)["state"] == "running"
    go_on.touch()
    served.wait_for(task_id, "completed", SECONDS)
    rest = content(served, task_id, LOG, Range=f"bytes={len(seen)}-")
    assert rest.status_code == 206
    whole = content(served, task_id, LOG)
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.content == seen + rest.content
    assert b"\nfirst\nlast\n" in whole.content


def test_colours_carriage_returns_and_other_bytes_survive(served: Service) -> None:
    printed = b"\x1b[31mred\x1b[0m 1%\r 2%\r\n\xff\xfe \xe2\x82\xac"
    octal = "".join(f"\\{byte:03o}" for byte in printed)
    task_id = served.create(payload=shell(f"printf '{octal}'"))
    served.wait_for(task_id, "completed", SECONDS)
    assert b"\n" + printed in content(served, task_id, LOG).content


def test_the_log_has_the_name_of_the_backing_log_as_well(served: Service) -> None:
    task_id = served.create(payload=shell("echo out"))
    served.wait_for(task_id, "completed", SECONDS)
    assert artifact(served, task_id, BACKING) == artifact(served, task_id, LOG)


@pytest.mark.parametrize(
    ("features", "logs", "expected"),
    [
        ({"backingLog": False}, {}, [LOG]),
        ({"liveLog": False}, {}, [BACKING]),
        ({"liveLog": False, "backingLog": False}, {}, []),
        ({}, {"live": "private/a", "backing": "private/b"}, ["private/a", "private/b"]),
    ],
)
def test_logs_are_on_or_off(
    served: Service, features: dict[str, bool], logs: dict[str, str], expected: list[str]
) -> None:
    task_id = served.create(payload=shell("echo out", features=features, logs=logs))
    served.wait_for(task_id, "completed", SECONDS)
    assert names(served, task_id) == expected
    for name in expected:
        assert "\nout\n" in artifact(served, task_id, name)


def test_a_log_that_is_too_long_loses_its_middle_and_the_result_stands(service: Service, tmp_path: Path) -> None:
    task_id = service.create(payload=shell("seq -w 1 500000"))
    with working(service, tmp_path, "--log-limit", "1", *LIVELY):
        service.wait_for(task_id, "completed", SECONDS)
    log = artifact(service, task_id, LOG)
    assert len(log) < 1.01 * 2**20
    assert "\n000001\n000002\n" in log
    assert "bytes of this log are left out here: it is too long." in log
    assert "\n499999\n500000\n" in log
    assert "Exit code 0\n" in log


@pytest.mark.large
def test_two_hundred_mebibytes_of_log(service: Service, tmp_path: Path) -> None:
    task_id = service.create(
        payload=shell("yes 'a line of the log that is longer than it is worth' | head -c 209715200")
    )
    with working(service, tmp_path):
        service.wait_for(task_id, "completed", 300)
    log = content(service, task_id, LOG).content
    assert 99 * 2**20 < len(log) < 101 * 2**20
    assert b"bytes of this log are left out here" in log
    assert b"Exit code 0\n" in log


def ended_by(service: Service, child: Child, task_id: str, ending: str) -> None:
    """Ends a run from outside."""
    if ending == "cancelled":
        service.queue.cancelTask(task_id)
        eventually(lambda: f"{task_id}/0: lost" in child.output(), SECONDS)
    else:
        child.terminate()
        assert child.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("cancelled", "The run ends here: lost, since it is exception (canceled)."),
        ("shutdown", "The run ends here: the worker shuts down."),
    ],
)
def test_the_log_of_a_run_that_is_ended_is_finished(service: Service, tmp_path: Path, ending: str, said: str) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'echo cleaning up; exit 1' TERM; echo begun; echo ready > {ready}; while true; do sleep 0.05; done"
    task_id = service.create(payload=shell(script))
    with working(service, tmp_path, *LIVELY, "--watch-seconds", "0.3") as child:
        wait_for_file(ready)
        ended_by(service, child, task_id, ending)
        log = log_with(service, task_id, said)
    assert "\nbegun\n" in log
    assert "\ncleaning up\n" in log
    expected: dict[str, Any] = {"cancelled": "canceled", "shutdown": "worker-shutdown"}
    assert run_of(service, task_id)["reasonResolved"] == expected[ending]
