"""How often pages read: less and less while nothing changes, and never in a hidden tab."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.promises.console.conftest import OpenPage
from tests.promises.console.scene import WORKER_GROUP, Scene

_HURRY = """
globalThis.waiting = new Map();
globalThis.pauses = [];
globalThis.hidden = false;
const later = setTimeout, never = clearTimeout;
globalThis.setTimeout = (call, delay) => {
  if (!(delay >= 2000 && delay <= 60_000)) return later(call, delay); // what is due at the end of a sign-in waits
  pauses.push(delay);
  const timer = later(() => { waiting.delete(timer); call(); }, 5);
  waiting.set(timer, delay);
  return timer;
};
globalThis.clearTimeout = (timer) => { waiting.delete(timer); never(timer); };
Object.defineProperty(document, "hidden", { get: () => hidden });
"""
"""Pauses of two seconds and more take no time, and are written down; the test says whether the tab is hidden."""

_WAITING = """
const row = { taskQueueId: "a/b", pendingTasks: 1, claimedTasks: 0, workers: 0, quarantinedWorkers: 0 };
let minutes = 5;
globalThis.fetch = async () => Response.json({
  taskQueues: [{ ...row, stalled: { reason: "no-worker", message: `The oldest for ${minutes++} min.` } }],
});
"""
_LONGEST = 60_000
_LAST = 8
"""More than any page has readers: each of them is among so many pauses."""
_RESTS = f"() => pauses.length > {_LAST} && pauses.slice(-{_LAST}).every((pause) => pause === {_LONGEST})"


_READ = """
/ /tasks/groups/{group} /tasks/{pending} /auth/clients
/provisioners/{provisioner}/worker-types/linux /provisioners/{provisioner}/worker-types/linux/workers/{worker}
"""


@pytest.mark.parametrize("path", _READ.split())
def test_a_page_on_which_nothing_changes_reads_once_a_minute_in_the_end(
    path: str, settled: Scene, open_page: OpenPage
) -> None:
    names = {
        "group": settled.group,
        "pending": settled.ids["windows"],
        "provisioner": settled.task_queue.split("/")[0],
        "worker": f"{WORKER_GROUP}/worker-2",
    }
    page = open_page(path.format(**names), script=_HURRY)
    page.wait_for_function(_RESTS)


def test_that_tasks_go_on_waiting_is_no_change(open_page: OpenPage) -> None:
    page = open_page("/provisioners", script=_HURRY + _WAITING)
    expect(page.get_by_text("starved: no worker")).to_be_visible()
    page.wait_for_function(_RESTS)


def test_a_hidden_tab_reads_nothing_until_it_is_shown(settled: Scene, open_page: OpenPage) -> None:
    page = open_page(f"/tasks/groups/{settled.group}", script=_HURRY)
    expect(page.get_by_role("link", name="package", exact=True)).to_be_visible()
    page.evaluate("hidden = true")
    page.wait_for_function("() => waiting.size === 0")
    before = page.evaluate("pauses.length")
    page.evaluate("hidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function(f"() => pauses.length > {before}")
