"""A worker that learns at once that its task was canceled, instead of when it renews the claim.

Subscription on task-exception with the pattern `primary.*.*.<workerGroup>.<workerId>.#`; a machine with several
workers leaves the last word out. A missed deadline names no worker: the worker knows the task's deadline itself.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import taskcluster

from docs.examples.consume import consume, end
from docs.examples.program import parser, queue, run, subscribed, until_interrupted


class RunningTasks:
    """The tasks that this worker runs, by task and run."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}

    def start(self, claim: dict[str, Any], job: asyncio.Task[None]) -> None:
        """Remember the job of a claim, as claimWork answered it, until it is done."""
        run = claim["status"]["taskId"], claim["runId"]
        self._running[run] = job
        job.add_done_callback(lambda _: self._running.pop(run, None))

    async def handle(self, exchange: str, message: dict[str, Any]) -> None:
        """Stops the run that a message is about, if it runs here and is not ours any more."""
        run_id = message["runId"]
        job = self._running.get((message["status"]["taskId"], run_id))
        if job is not None and message["status"]["runs"][run_id]["reasonResolved"] in ("canceled", "claim-expired"):
            job.cancel()


async def main() -> None:
    """Claims one task and holds it until it is canceled, or for some seconds; then it reports it as completed."""
    arguments = parser(__doc__)
    arguments.add_argument("task_queue_id", help="<provisionerId>/<workerType>")
    arguments.add_argument("--seconds", type=float, default=60, help="how long the task takes (default: 60)")
    given = arguments.parse_args()
    group, worker = "examples", f"worker-{os.getpid()}"
    tasks = RunningTasks()

    async def claim() -> dict[str, Any]:
        wanted = {"workerGroup": group, "workerId": worker, "tasks": 1}
        while not (found := (await asyncio.to_thread(queue().claimWork, given.task_queue_id, wanted))["tasks"]):
            pass  # claimWork waits for a task by itself
        return dict(found[0])

    async def hold(subscriptions: dict[str, str]) -> None:
        reading = asyncio.create_task(consume(client, subscriptions, tasks.handle))
        try:
            claimed = await claim()
            task_id, run_id = claimed["status"]["taskId"], claimed["runId"]
            print(f"running {task_id}", flush=True)
            job = asyncio.create_task(asyncio.sleep(given.seconds))
            tasks.start(claimed, job)
            await asyncio.wait([job])
            if job.cancelled():
                print(f"stopped {task_id}: it was canceled", flush=True)
                return
            mine = taskcluster.Queue({"rootUrl": queue().options["rootUrl"], "credentials": claimed["credentials"]})
            await asyncio.to_thread(mine.reportCompleted, task_id, run_id)
            print(f"completed {task_id}", flush=True)
        finally:
            await end([reading])

    async with subscribed({"task-exception": [f"primary.*.*.{group}.{worker}.#"]}) as (client, subscriptions):
        await until_interrupted(hold(subscriptions))


if __name__ == "__main__":
    run(main())
