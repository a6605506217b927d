"""The operator's page: what was given up and what can be done with it, timers, costs; and who may see it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueClient
from playwright.sync_api import expect

from shared.base.ids import new_slugid
from shared.queue.tasks.internal_messages import EVENTS_QUEUE, RESOLVED_QUEUE, encode_body
from shared.queue.tasks.messages import poison_queue
from tests.promises.console.browser import Watch, answered
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import Scene
from tests.promises.console.test_pages import PHONE, WIDE, faults_of, keep

LONG_AGO = "2020-01-01T00:00:00.000Z"


@pytest.fixture
def given_up(scene: Scene) -> list[str]:
    """Returns two messages about tasks that do not exist, given up."""
    tasks = [new_slugid(), new_slugid()]
    with QueueClient.from_connection_string(scene.deployment.storage, poison_queue(RESOLVED_QUEUE)) as queue:
        with suppress(ResourceExistsError):
            queue.create_queue()
        for task_id in tasks:
            queue.send_message(encode_body({"taskId": task_id, "runId": 0, "put": LONG_AGO}))
    return tasks


def test_an_operator_looks_and_acts(settled: Scene, given_up: list[str], open_page: OpenPage, watch: Watch) -> None:
    page = open_page("/operations", viewport=WIDE)
    part = page.get_by_role("region", name=f"Given up in {RESOLVED_QUEUE}")
    expect(part.get_by_text("dependents may wait in vain")).to_be_visible()
    expect(part.get_by_role("listitem")).to_have_count(2)
    for task_id in given_up:
        expect(part.get_by_role("link", name=task_id)).to_be_visible()
    expect(page.get_by_text("No event is waiting")).to_be_visible()
    expect(page.get_by_role("region", name="Timers")).to_contain_text("Gauges noted")
    expect(page.get_by_role("region", name="Waiting workers")).to_contain_text("Neither is a failure")
    paths = sorted(
        request.url.partition("/v1/")[2].partition("?")[0] for request in watch.requests if "/v1/" in request.url
    )
    assert paths == ["health", "operations", f"poison-messages/{RESOLVED_QUEUE}"], "each once"
    page.get_by_text("Slow calls of the last day").click()
    expect(page.get_by_text("todouble(Properties.milliseconds) > 1000")).to_be_visible()
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="light")
        assert faults_of(page) == []
        keep(page, f"operations-{size['width']}")
        page.emulate_media(color_scheme="dark")
        assert faults_of(page) == []
    beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert beyond <= 0, "the page scrolls sideways"

    page.set_viewport_size(WIDE)
    first = part.get_by_role("listitem").filter(has_text=given_up[0])
    first.get_by_role("button", name="Send again").click()
    expect(part.get_by_text("1 message sent once more.")).to_be_visible()
    expect(part.get_by_role("listitem")).to_have_count(1)
    part.get_by_role("button", name="Delete all").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 1 message of").click()
    expect(page.get_by_text("No message was given up.")).to_be_visible()


def test_what_no_handler_reads_is_called_nothing_else(scene: Scene, open_page: OpenPage) -> None:
    """An event that was given up is one of those that the service has put."""
    with QueueClient.from_connection_string(scene.deployment.storage, poison_queue(EVENTS_QUEUE)) as queue:
        with suppress(ResourceExistsError):
            queue.create_queue()
        for body in ({"x": 1}, {"pointer": new_slugid()}):
            queue.send_message(encode_body(body))
    page = open_page("/operations")
    listed = page.get_by_role("region", name=f"Given up in {EVENTS_QUEUE}").get_by_role("listitem")
    expect(listed).to_have_count(2)
    foreign, event = listed.first, listed.last
    expect(foreign).to_contain_text("It cannot be read: this service has not put it, or it is cut off.")
    expect(foreign.get_by_role("button", name="Send again")).to_have_count(0)
    expect(event).to_contain_text("an event")


def test_commands_are_for_operators(open_page: OpenPage) -> None:
    finding = {"code": "poison-messages", "severity": "warning", "message": "Something is wrong.", "remedy": "Mend it."}
    found = {"status": "warning", "findings": [{**finding, "command": "./dev admin poison list"}]}
    page = open_page("/", script=answered("/health", found))
    expect(page.get_by_label("Health")).to_contain_text("Something is wrong.")
    expect(page.get_by_text("./dev")).to_have_count(0)
    page.get_by_label("Health").get_by_role("link", name="Operations").click()
    expect(page.get_by_label("Health").get_by_text("./dev admin poison list")).to_be_visible()


def test_who_may_not_is_told_what_is_missing(scene: Scene, open_page: OpenPage) -> None:
    page = open_page("/operations", scene.deployment.new_client("queue:get-task:*"))
    expect(page.get_by_text("queue:operations").first).to_be_visible()


def test_a_task_queue_shows_what_its_workers_do(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/provisioners/{settled.task_queue.replace('/', '/worker-types/')}")
    expect(page.get_by_text("2 workers known: 1 running the last task")).to_be_visible()
