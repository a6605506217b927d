"""createArtifact: who may call it, when, what is checked, and what counts as a repeat (contract 7.1 to 7.5)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.base.dates import parse_date
from shared.base.ids import new_slugid
from tests.promises.host.artifacts import Run
from tests.promises.host.service import Service, in_future, refused

ERROR = {"reason": "file-missing-on-worker", "message": "there is none"}
URL = "https://example.com/1"


def test_the_answers_say_how_to_go_on(run: Run) -> None:
    answers = {
        "s3": run.create("s3", "s3"),
        "azure": run.create("azure", "azure"),
        "reference": run.create("reference", "reference", url=URL),
        "link": run.create("link", "link", artifact="s3"),
        "error": run.create("error", "error", **ERROR),
    }
    for storage_type in ("s3", "azure"):
        answer = answers[storage_type]
        assert answer.keys() == {"storageType", "contentType", "expires", "putUrl"}
        assert (answer["storageType"], answer["contentType"]) == (storage_type, "text/plain")
    for storage_type in ("reference", "link", "error"):
        assert answers[storage_type] == {"storageType": storage_type}
    lives = [parse_date(answers[name]["expires"]) - parse_date(in_future(0)) for name in ("s3", "azure")]
    assert [round(life.total_seconds() / 60) for life in lives] == [45, 30]


@pytest.mark.parametrize(
    "request_",
    [
        {"storageType": "s3"},
        {"storageType": "s3", "contentType": "x" * 256},
        {"storageType": "s3", "contentType": "a/b", "contentLength": -1},
        {"storageType": "s3", "contentType": "a/b", "extra": 1},
        {"storageType": "azure"},
        {"storageType": "object"},
        {"storageType": "reference", "contentType": "a/b"},
        {"storageType": "reference", "contentType": "a/b", "url": "no url"},
        {"storageType": "link"},
        {"storageType": "error", "reason": "because", "message": ""},
        {"storageType": "error", "reason": ERROR["reason"], "message": "x" * 4097},
        {"storageType": "error", **ERROR, "contentType": "a/b"},
        {"storageType": "blob", "contentType": "a/b", "contentLength": 1},
        {"storageType": "blob", "contentType": "a/b", "contentLength": 1, "contentSha256": "0"},
        {"storageType": "other", "contentType": "a/b"},
        {"contentType": "a/b"},
    ],
)
def test_what_the_schema_refuses(run: Run, request_: dict[str, Any]) -> None:
    with refused(400, "InputValidationError"):
        run.worker.createArtifact(run.task_id, 0, "name", {"expires": run.expires, **request_})


def test_unknown_tasks_and_runs_and_what_outlives_its_task_are_bad_input(service: Service, run: Run) -> None:
    request = {"storageType": "s3", "expires": run.expires, "contentType": "a/b"}
    with refused(400, "InputError"):
        service.queue.createArtifact(new_slugid(), 0, "name", request)
    with refused(400, "InputError"):  # it would outlive its task
        run.worker.createArtifact(run.task_id, 0, "name", {**request, "expires": "2999-01-01T00:00:00.000Z"})
    for run_id in (1, 1000, 10**30):
        with refused(400, "InputError"):
            service.queue.createArtifact(run.task_id, run_id, "name", request)
    unclaimed = service.create()
    with refused(400, "InputError"):
        service.queue.createArtifact(unclaimed, 0, "name", request)


@pytest.mark.parametrize("report", ["reportCompleted", "reportFailed"])
def test_a_run_that_is_over_takes_no_artifacts(service: Service, run: Run, report: str) -> None:
    run.create("before", "s3")
    getattr(run.worker, report)(run.task_id, 0)
    for name in ("before", "after"):
        with refused(409, "RequestConflict"):
            run.create(name, "s3")


def test_what_is_announced(service: Service, run: Run) -> None:
    """Types that are complete when they are created are announced, also with another URL; an upload is not."""
    assert service.events
    run.create("public/s3", "s3")
    run.refer("public/reference")
    run.refer("public/reference", "https://example.com/2")
    run.fail("public/error")
    run.link("public/link", "public/reference", contentType="text/plain")
    run.complete()
    found = service.events.expect(
        run.task_id,
        ("task-defined", None),
        ("task-pending", 0),
        ("task-running", 0),
        *(("artifact-created", 0),) * 4,
        ("task-completed", 0),
        ("task-group-resolved", None),
    )
    announced = {event.body["artifact"]["name"]: event for event in found if event.topic == "artifact-created"}
    assert announced.keys() == {"public/reference", "public/error", "public/link"}
    event = announced["public/reference"]
    assert event.body["artifact"] == {
        "storageType": "reference",
        "name": "public/reference",
        "expires": run.expires,
        "contentType": "text/plain",
    }
    assert (event.body["runId"], event.body["workerGroup"], event.body["workerId"]) == (0, "g", "w")
    assert event.body["status"]["state"] == "running"
    assert announced["public/error"].body["artifact"]["contentType"] == "application/binary"


@pytest.mark.parametrize("name", ["ä", "a\tb", "a\nb", "\x7f"])
def test_names_that_are_refused(run: Run, name: str) -> None:
    with refused(400, "InvalidRequestArguments"):
        run.create(name, "s3")
