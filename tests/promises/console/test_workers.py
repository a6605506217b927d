"""The pages of task queues and workers."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import requests
from playwright.sync_api import Locator, Page, expect

from tests.promises.clients.deployment import format_time
from tests.promises.console.browser import Watch
from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import WORKER_GROUP, Scene
from tests.promises.console.stuck import task_has_waited, work_was_asked_for, worker_was_seen
from tests.promises.console.test_pages import faults_of
from tools.admin.signing import signed_url


def _queue(scene: Scene) -> str:
    return f"/provisioners/{scene.task_queue.replace('/', '/worker-types/')}"


def test_a_worker_is_quarantined_and_released(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.run("build")
    page = open_page(_queue(scene))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=f"{WORKER_GROUP}/worker-1"))
    expect(row).to_contain_text("seen in the last half hour")
    expect(row.get_by_role("link", name="build", exact=True)).to_be_visible()
    page.get_by_role("link", name=f"{WORKER_GROUP}/worker-1").click()
    expect(page.get_by_text("seen in the last half hour")).to_be_visible()
    expect(page.get_by_role("link", name="build")).to_be_visible()
    expect(page.get_by_role("button", name="Quarantine", exact=True)).to_be_disabled()
    page.get_by_label("Reason").fill("its disk is <b>full</b>")
    page.get_by_role("button", name="Quarantine", exact=True).click()
    release = page.get_by_role("button", name="Release")
    expect(release).to_be_visible()
    expect(page.get_by_text("its disk is <b>full</b>")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="until further notice")).to_be_visible()
    asked = {"workerGroup": WORKER_GROUP, "workerId": "worker-1", "tasks": 1}
    scene.create("test")
    assert scene.client().claimWork(scene.task_queue, asked)["tasks"] == []

    page.get_by_label("Reason").fill("cleaned")
    release.click()
    expect(page.get_by_text("seen in the last half hour")).to_be_visible()
    scene.run("test")


def test_several_workers_are_quarantined_for_a_day_and_released(
    scene: Scene, open_page: OpenPage, watch: Watch
) -> None:
    """One question for all of them, whose button says what it does; one request for each."""
    for number in (1, 2, 3):
        asked = {"workerGroup": WORKER_GROUP, "workerId": f"worker-{number}", "tasks": 1}
        scene.create(f"build-{number}")
        assert scene.client().claimWork(scene.task_queue, asked)["tasks"]
    page = open_page(_queue(scene))
    for number in (1, 2):
        page.get_by_label(f"Select {WORKER_GROUP}/worker-{number}").check()
    actions = page.get_by_role("group", name="Actions on the selected workers")
    expect(actions).to_contain_text("2 workers selected")
    quarantine = actions.get_by_role("button", name="Quarantine 2")
    expect(quarantine).to_be_disabled()
    assert faults_of(page) == []
    actions.get_by_label("Reason").fill("a bad image")
    actions.get_by_label("How long").select_option("for a day")
    asked_at = datetime.now(UTC)
    quarantine.click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("No work for a day.")
    question.get_by_role("button", name="Quarantine 2 workers").click()
    expect(page.get_by_text("Quarantine: 2 of 2 workers done.")).to_be_visible()
    cells = page.get_by_role("row").filter(has=page.get_by_role("link", name=f"{WORKER_GROUP}/worker-"))
    expect(cells.filter(has_text="quarantined")).to_have_count(2)
    sent = [request for request in watch.requests if request.method == "PUT"]
    assert sorted(request.url.rpartition("/")[2] for request in sent) == ["worker-1", "worker-2"]
    for request in sent:
        body = json.loads(request.post_data or "")
        assert body["quarantineInfo"] == "a bad image"
        until = datetime.fromisoformat(body["quarantineUntil"])
        # The page's clock is the service's, of which it knows whole seconds and the time that an answer took.
        assert asked_at - timedelta(minutes=1) < until - timedelta(days=1) < datetime.now(UTC) + timedelta(minutes=1)

    page.get_by_label(f"Select {WORKER_GROUP}/worker-3").check()
    expect(actions.get_by_role("button", name="Quarantine 3")).to_be_enabled()
    actions.get_by_role("button", name="Release 2").click()
    page.get_by_role("dialog").get_by_role("button", name="Release 2 workers").click()
    expect(page.get_by_text("Release: 2 of 2 workers done.")).to_be_visible()
    expect(cells.filter(has_text="quarantined")).to_have_count(0)
    actions.get_by_role("button", name="Clear selection").click()
    expect(actions).to_have_count(0)


def test_what_waits_and_what_runs_is_listed(scene: Scene, open_page: OpenPage) -> None:
    for name, priority in (("later", "low"), ("next", "high"), ("running", "highest")):
        scene.create(name, priority=priority)
    asked = {"workerGroup": WORKER_GROUP, "workerId": "worker-1", "tasks": 1}
    [claim] = scene.client().claimWork(scene.task_queue, asked)["tasks"]
    assert claim["task"]["metadata"]["name"] == "running"
    page = open_page(_queue(scene))
    wanted = page.get_by_role("term").filter(has_text="Workers wanted")
    expect(wanted.locator("xpath=following-sibling::dd[1]")).to_have_text("3")
    page.get_by_role("link", name="Pending 2", exact=True).click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("next")
    expect(page.get_by_role("row").nth(2)).to_contain_text("later")
    expect(page.get_by_role("link", name=scene.group).first).to_be_visible()
    page.get_by_role("link", name="Running 1", exact=True).click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("running")
    expect(page.get_by_role("row").nth(1)).to_contain_text(f"{WORKER_GROUP}/worker-1")


def test_scaling_is_shown_with_the_workers_that_wait(scene: Scene, open_page: OpenPage) -> None:
    """A client sees it that may see counts and workers, and nothing else of the task queue."""
    for name in ("one", "two", "three"):
        scene.create(name)
    scene.claim("one")
    polling = f"{scene.deployment.root_url}/api/queue/v1/poll-task-url/{scene.task_queue}"
    for _ in range(2):
        answer = requests.get(signed_url(scene.deployment.root, polling, timedelta(hours=1)), timeout=30)
        answer.raise_for_status()
    counts = [f"queue:{kind}-count:{scene.task_queue}" for kind in ("pending", "claimed")]
    reader = scene.deployment.new_client(*counts, f"queue:list-workers:{scene.task_queue}")
    page = open_page(_queue(scene), reader)
    facts = page.locator("dl.facts dd")
    running = len(scene.claims)
    expect(facts).to_have_text([str(3 - running), str(running), "3", "2 hold signed URLs, if they still poll"])

    other, asked = replace(scene, task_queue=f"{scene.task_queue}-idle"), threading.Event()

    def wait_for_work() -> None:
        while not asked.is_set():
            other.client().claimWork(other.task_queue, {"workerGroup": WORKER_GROUP, "workerId": "idle", "tasks": 1})

    worker = threading.Thread(target=wait_for_work)
    worker.start()
    try:
        page = open_page(_queue(other))
        expect(page.locator("dl.facts dd")).to_have_text(["0", "0", "0", "1 in claimWork"])
    finally:
        asked.set()
        worker.join()


def test_task_queues_are_listed_with_what_runs(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/provisioners?name={settled.task_queue.split('/')[0]}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=settled.task_queue))
    cells = _cells(page, row)
    expect(cells["Running"]).to_have_text("1")
    expect(cells["State"]).to_be_empty()
    expect(cells["Workers"]).to_have_text("2")


def test_the_list_of_task_queues_counts_workers_in_quarantine(scene: Scene, open_page: OpenPage, watch: Watch) -> None:
    for name in ("one", "two"):
        scene.create(name)
    for number in (1, 2):
        asked = {"workerGroup": WORKER_GROUP, "workerId": f"worker-{number}", "tasks": 1}
        assert scene.client().claimWork(scene.task_queue, asked)["tasks"]
    until = {"quarantineUntil": format_time(timedelta(hours=1)), "quarantineInfo": "a bad disk"}
    provisioner, worker_type = scene.task_queue.split("/")
    scene.client().quarantineWorker(provisioner, worker_type, WORKER_GROUP, "worker-1", until)
    page = open_page(f"/provisioners/{provisioner}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=scene.task_queue))
    expect(_cells(page, row)["Workers"]).to_have_text("2 1 in quarantine")
    expect(page.get_by_role("row")).to_have_count(2)
    lists = [request.url for request in watch.requests if "/api/queue/" in request.url]
    assert lists == [url for url in lists if "/task-queue-states" in url], "one list tells it all"


def _cells(page: Page, row: Locator) -> dict[str, Locator]:
    """Returns the cells of a row by the heads of their columns."""
    expect(row).to_be_visible()
    heads = [head.removesuffix(" ▲") for head in page.get_by_role("columnheader").all_inner_texts()]
    return {head: row.get_by_role("cell").nth(at) for at, head in enumerate(heads)}


def test_workers_that_have_ended_are_not_counted_as_if_they_were_there(scene: Scene, open_page: OpenPage) -> None:
    scene.client().claimWork(scene.task_queue, {"workerGroup": WORKER_GROUP, "workerId": "worker-1", "tasks": 1})
    page = open_page(f"/provisioners/{scene.task_queue.split('/')[0]}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=scene.task_queue))
    expect(_cells(page, row)["Workers"]).to_have_text("1")
    work_was_asked_for(scene.deployment.storage, scene.task_queue, timedelta(minutes=45))
    page.reload()
    expect(_cells(page, row)["Workers"]).to_have_text("1 none seen lately")


def test_a_task_queue_that_no_worker_has_asked_is_listed_too(settled: Scene, open_page: OpenPage) -> None:
    """Its tasks wait for somebody to notice."""
    page = open_page(f"/provisioners/{settled.task_queue.split('/')[0]}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="windows"))
    expect(row).to_contain_text("starved: no worker")
    expect(_cells(page, row)["Pending"]).to_have_text("1")


def test_a_task_queue_without_workers_says_so(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/worker-manager/{settled.task_queue.replace('/linux', '%2Fwindows')}")
    expect(page.get_by_text("No worker has asked this task queue for work lately")).to_be_visible()
    expect(page.locator("dl dd")).to_have_text(["1", "0", "1", "0"])  # pending, running, workers wanted, waiting
    expect(page.get_by_role("status")).to_contain_text("No worker takes the tasks of task queue")


def test_a_worker_that_runs_a_task_is_active_now(scene: Scene, open_page: OpenPage) -> None:
    """However long ago its row was written: claims are renewed without writing it."""
    scene.create("build")
    scene.claim("build")
    storage = scene.deployment.storage
    worker_was_seen(storage, scene.task_queue, WORKER_GROUP, "worker-1", timedelta(minutes=22))
    page = open_page(_queue(scene))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=f"{WORKER_GROUP}/worker-1"))
    expect(row.get_by_role("cell").nth(2)).to_have_text("running its last task")
    expect(row.get_by_role("cell").nth(3)).to_have_text("now")
    row.get_by_role("link", name=f"{WORKER_GROUP}/worker-1").click()
    expect(page.locator("dl.facts dd").nth(0)).to_have_text("running 1 task")
    expect(page.locator("dl.facts dd").nth(1)).to_have_text("now")


def test_a_workers_run_is_said_to_have_ended_as_it_did_whatever_came_after(scene: Scene, open_page: OpenPage) -> None:
    task_id = scene.create("build")
    scene.claim("build")
    scene.client(scene.claims["build"]["credentials"]).reportException(task_id, 0, {"reason": "worker-shutdown"})
    page = open_page(f"{_queue(scene)}/workers/{WORKER_GROUP}/worker-1")
    expect(page.get_by_role("listitem").filter(has_text="build")).to_contain_text("exception worker-shutdown started")


def test_the_end_of_a_workers_last_task_shows_although_its_row_is_unchanged(scene: Scene, open_page: OpenPage) -> None:
    """Reports write no row of the worker: the list that is read then differs in nothing else."""
    scene.create("build")
    scene.claim("build")
    page = open_page(_queue(scene))
    row = page.get_by_role("row").nth(1)
    expect(row).to_contain_text("running its last task")
    scene.complete("build")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # a tab that is shown again looks at once
    expect(row).to_contain_text("seen in the last half hour", timeout=8_000)  # and by itself after ten seconds


def test_a_stuck_task_queue_is_named_wherever_people_look(scene: Scene, open_page: OpenPage) -> None:
    """Its workers asked for work, and ended; then a task was created."""
    scene.client().claimWork(scene.task_queue, {"workerGroup": WORKER_GROUP, "workerId": "worker-1", "tasks": 1})
    scene.create("build")
    expected = "none has asked for work or renewed a claim for"
    page = open_page(f"/tasks/{scene.ids['build']}")
    expect(page.get_by_text("It is next in")).to_be_visible()

    storage, queue = scene.deployment.storage, scene.task_queue
    work_was_asked_for(storage, queue, timedelta(minutes=30))
    worker_was_seen(storage, queue, WORKER_GROUP, "worker-1", timedelta(minutes=45, seconds=20))
    task_has_waited(storage, queue, timedelta(minutes=28))
    page.reload()
    expect(page.get_by_text(expected)).to_contain_text("1 pending task, the oldest for 28 min.")
    expect(page.get_by_text("It is next in")).to_have_count(0)
    page.goto(f"/tasks/groups/{scene.group}")
    expect(page.get_by_label("What is wrong")).to_contain_text(expected)
    page.get_by_label("What is wrong").get_by_role("link", name=f"Task queue {scene.task_queue}").click()
    expect(page.get_by_role("status").filter(has_text=expected)).to_be_visible()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=f"{WORKER_GROUP}/worker-1"))
    expect(row).to_contain_text("not seen for 45 min")
    page.get_by_role("main").get_by_role("link", name="Task queues", exact=True).click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("no worker")
    mine = page.get_by_role("row").filter(has=page.get_by_role("link", name=scene.task_queue, exact=True))
    expect(mine).to_contain_text("no worker asks")

    page.goto("/")
    expect(page.get_by_label("Health").get_by_role("listitem").filter(has_text=scene.task_queue)).to_contain_text(
        expected
    )
