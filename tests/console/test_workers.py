"""The pages of task queues and workers."""

import threading
from dataclasses import replace
from datetime import timedelta

import requests
from playwright.sync_api import expect

from admin.signing import signed_url
from tests.console.conftest import OpenPage
from tests.console.scene import WORKER_GROUP, Scene


def _queue(scene: Scene) -> str:
    return f"/provisioners/{scene.task_queue.replace('/', '/worker-types/')}"


def test_a_worker_is_quarantined_and_released(scene: Scene, open_page: OpenPage) -> None:
    scene.create("build")
    scene.run("build")
    page = open_page(_queue(scene))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=f"{WORKER_GROUP}/worker-1"))
    expect(row).to_contain_text("takes work")
    expect(row.get_by_role("link", name="build", exact=True)).to_be_visible()
    page.get_by_role("link", name=f"{WORKER_GROUP}/worker-1").click()
    expect(page.get_by_text("takes work")).to_be_visible()
    expect(page.get_by_role("link", name="build")).to_be_visible()
    expect(page.get_by_role("button", name="Quarantine", exact=True)).to_be_disabled()
    page.get_by_label("Reason").fill("its disk is <b>full</b>")
    page.get_by_role("button", name="Quarantine", exact=True).click()
    release = page.get_by_role("button", name="Release")
    expect(release).to_be_visible()
    expect(page.get_by_text("its disk is <b>full</b>")).to_be_visible()
    asked = {"workerGroup": WORKER_GROUP, "workerId": "worker-1", "tasks": 1}
    scene.create("test")
    assert scene.client().claimWork(scene.task_queue, asked)["tasks"] == []

    page.get_by_label("Reason").fill("cleaned")
    release.click()
    expect(page.get_by_text("takes work")).to_be_visible()
    scene.run("test")


def test_what_waits_and_what_runs_is_listed(scene: Scene, open_page: OpenPage) -> None:
    for name, priority in (("later", "low"), ("next", "high"), ("running", "highest")):
        scene.create(name, priority=priority)
    asked = {"workerGroup": WORKER_GROUP, "workerId": "worker-1", "tasks": 1}
    [claim] = scene.client().claimWork(scene.task_queue, asked)["tasks"]
    assert claim["task"]["metadata"]["name"] == "running"
    page = open_page(_queue(scene))
    wanted = page.get_by_role("term").filter(has_text="Workers wanted")
    expect(wanted.locator("xpath=following-sibling::dd[1]")).to_have_text("3")
    page.get_by_role("link", name="Pending", exact=True).click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("next")
    expect(page.get_by_role("row").nth(2)).to_contain_text("later")
    expect(page.get_by_role("link", name=scene.group).first).to_be_visible()
    page.get_by_role("link", name="Running", exact=True).click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("running")
    expect(page.get_by_role("row").nth(1)).to_contain_text(f"{WORKER_GROUP}/worker-1")


def test_scaling_is_shown_with_the_workers_that_wait(scene: Scene, open_page: OpenPage) -> None:
    """By a client that may see counts and workers, and nothing else of the task queue."""
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
    expect(facts).to_have_text([str(3 - running), str(running), "3", "2 with signed URLs"])

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
    expect(row.get_by_role("cell").nth(3)).to_have_text("1")


def test_a_task_queue_that_no_worker_has_asked_is_listed_too(settled: Scene, open_page: OpenPage) -> None:
    """Its tasks wait for somebody to notice."""
    page = open_page(f"/provisioners/{settled.task_queue.split('/')[0]}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="windows"))
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    expect(row).to_contain_text("no worker")


def test_a_task_queue_without_workers_says_so(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/worker-manager/{settled.task_queue.replace('/linux', '%2Fwindows')}")
    expect(page.get_by_text("No worker has asked this task queue for work lately")).to_be_visible()
    expect(page.locator("dl dd")).to_have_text(["1", "0", "1", "0"])  # pending, running, workers wanted, waiting
