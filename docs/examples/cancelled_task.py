"""A worker that learns at once that its task was canceled, instead of when it renews the claim.

Subscription on task-exception with the pattern `primary.*.*.<workerGroup>.<workerId>.#`; a machine with several
workers leaves the last word out. A missed deadline names no worker: the worker knows the task's deadline itself.
"""

from __future__ import annotations

import asyncio
from typing import Any


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
