"""One run, from its claim to its report: the worker's side of it, which no task can hold up.

The task itself is worked on by another process (runner.py). This one keeps the claim, reports, and does what takes the
claim's credentials (claim.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

from worker.child import Guard, GuardLost
from worker.claim import Calls, Claim
from worker.folders import may_mount
from worker.messages import Channel, Message
from worker.options import Options
from worker.queue import REFUSED, insist

log = logging.getLogger("worker")

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TASKCLUSTER_WORKER_LOCATION", "TASKCLUSTER_INSTANCE_TYPE")
"""What a command sees of the worker's environment: nothing secret."""
CALLS_AT_ONCE = 16
"""Calls that are made for a task at the same time: fewer than there are connections (queue.py)."""
MOST_CACHES, LONGEST_PLACE = 100, 1024
"""What the guard makes for a task: each place may be of many directories."""
OUTCOMES = {"completed", "failed", "malformed-payload", "intermittent-task", "resource-unavailable", "internal-error"}
REPORT_SECONDS = 10.0
"""How long a worker that shuts down waits for a report that is under way, or for its own."""
SHUTDOWN_SECONDS = 5.0
"""How long it then takes for the rest of the log, and until the guard has put everything back."""
LOG_SECONDS = 400.0
"""How long the rest of the log of any other run may take."""


class Run:
    """Has one claimed run executed."""

    def __init__(self, claim: Claim, options: Options, session: aiohttp.ClientSession, guard: Guard) -> None:
        self._claim = claim
        self._options = options
        self._guard = guard
        self._calls = Calls(claim, options.root_url, session)
        self._began = time.monotonic()
        self._limit = _limit(claim.definition["payload"], options.max_run_time)
        self._serving: asyncio.Task[None] | None = None
        """Ends with the process."""
        self._is_ending = False
        """The process may go on for a moment, as if the task had ended by itself: nothing is done for it any more."""
        self._outcome = asyncio.Future[str]()
        """What the process has told of the task: what is to be reported."""
        self._is_filled = False
        """Whether it has told that the mounts are there: commands may run from then on."""

    async def run(self, shutdown: asyncio.Event) -> list[str]:
        """Works on the run until it is reported, lost, or the worker shuts down; then everything is put back.

        Returns what is not as it was before. Raises nothing.
        """
        log.info("%s: claimed", self._claim)
        work = asyncio.create_task(self._work())
        lost = asyncio.create_task(self._claim.keep())
        stop = asyncio.create_task(shutdown.wait())
        try:
            await asyncio.wait((work, lost, stop), return_when=asyncio.FIRST_COMPLETED)
            if stop.done() and not lost.done() and self._outcome.done():
                await asyncio.wait((work, lost), timeout=REPORT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await _cancel(work)
            if not work.cancelled():
                work.result()
            elif lost.done():
                await self._end_early(f"lost, since {lost.result()}", LOG_SECONDS)
            else:  # the queue retries the task at once
                await self._end_early("the worker shuts down", SHUTDOWN_SECONDS, "worker-shutdown")
        except Exception:
            log.exception("%s: the worker failed", self._claim)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._report("internal-error"), REPORT_SECONDS)
        ending = asyncio.create_task(self._guard.end())
        await asyncio.wait((ending, stop), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([ending], timeout=SHUTDOWN_SECONDS)  # without the worker the guard goes on alone
        for each in (ending, lost, stop, self._serving):
            if each is not None:
                await _cancel(each)
        if ending.cancelled():
            return []
        return ["its guard has ended, or does not answer"] if ending.exception() else ending.result()

    async def _work(self) -> None:
        """Has the run executed, and reports it."""
        claim = self._claim
        try:
            name, caches = f"{claim.task_id}-{claim.run_id}", _caches(claim.definition)
            serving = await self._talk(*await self._guard.begin({"run": name, "caches": caches}))
        except OSError as problem:
            log.error("%s: the worker cannot start it: %s", claim, problem)
            await self._report("resource-unavailable")
        except GuardLost:  # it ended meanwhile: so does this worker, and another one is to get the task
            await self._report("worker-shutdown")
        else:
            await self._report(await self._ending(serving))
            await asyncio.wait([serving], timeout=LOG_SECONDS)

    async def _talk(self, channel: Channel, begun: Message, **more: Any) -> asyncio.Task[None]:
        """Tells the process what to do, and listens to it until it ends."""
        claim, options = self._claim, self._options
        self._serving, self._is_ending = asyncio.create_task(self._serve(channel)), False
        begin = {
            "task": claim.definition,
            "taskId": claim.task_id,
            "runId": claim.run_id,
            "worker": f"{options.worker_group}/{options.worker_id}",
            "rootUrl": options.root_url,
            "mostRunTime": options.max_run_time,
            "logSeconds": options.log_seconds,
            "logLimit": options.log_limit,
            "passedOn": {name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "environment": {
                "TASK_ID": claim.task_id,
                "RUN_ID": str(claim.run_id),
                "TASK_GROUP_ID": claim.definition["taskGroupId"],
                "TASKCLUSTER_ROOT_URL": options.root_url,
                "TASKCLUSTER_WORKER_GROUP": options.worker_group,
                "TASKCLUSTER_WORKER_TYPE": options.task_queue_id.partition("/")[2],
            },
        }
        await channel.send({**begin, **begun, **more})
        return self._serving

    async def _ending(self, serving: asyncio.Task[None]) -> str:
        """What is to be reported. The process says it, unless it is late or was killed."""
        left = None if self._limit is None else max(0.0, self._limit - (time.monotonic() - self._began))
        await asyncio.wait((self._outcome, serving), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if self._outcome.done():
            if (outcome := self._outcome.result()) in ("completed", "failed"):  # or its log is finished later
                await asyncio.wait([serving], timeout=LOG_SECONDS)
            return outcome
        if not serving.done():
            self._outcome.set_result("failed")
            await self._end_early(f"ended after maxRunTime, {self._limit:g} s", LOG_SECONDS, is_failed=True)
            return "failed"
        how, why, outcome = None, "cannot be found", "failed"
        with contextlib.suppress(GuardLost):
            how = await self._guard.stop(self._options.grace_seconds)
        if how is not None and how >= 0:
            why, outcome = "has failed", "internal-error"
        elif how is not None:
            # Before there are commands none of them can have killed it: memory has run out.
            why, outcome = f"was ended by signal {-how}", "failed" if self._is_filled else "resource-unavailable"
        why = f"the process that works on this task {why}"
        await self._end_early(why, LOG_SECONDS, is_failed=outcome == "failed")
        return outcome

    async def _end_early(self, why: str, seconds: float, reason: str | None = None, *, is_failed: bool = False) -> None:
        """Ends what the task runs, and finishes its log in at most so many seconds, since nobody else does.

        `reason`: to be reported as soon as nothing of the task runs any more. `is_failed`: it is to be reported so.
        """
        self._is_ending = True
        try:
            await self._guard.stop(self._options.grace_seconds)
            log.info("%s: %s", self._claim, why)
            if reason is not None:
                await asyncio.wait_for(self._report(reason), REPORT_SECONDS)
            async with asyncio.timeout(seconds):
                await self._guard.end()
                if self._serving is not None:
                    told: Message = {"finish": f"The run ends here: {why}.", "isFailed": is_failed}
                    await asyncio.wait([await self._talk(*await self._guard.begin({"log": True}), **told)])
        except (TimeoutError, GuardLost, OSError):
            log.warning("%s: not ended as it should be: %s", self._claim, why)

    async def _serve(self, channel: Channel) -> None:
        """Does what the process asks for, a bounded number of things at once, until it ends."""
        room = asyncio.Semaphore(CALLS_AT_ONCE)

        async def answer(message: Message) -> None:
            try:
                await channel.send({"id": message["id"], **await self._calls.answer(message)})
            finally:
                room.release()

        try:
            async with asyncio.TaskGroup() as calls:
                while True:
                    message = await channel.receive()
                    if self._is_ending:
                        continue
                    if "id" in message:
                        await room.acquire()
                        calls.create_task(answer(message))
                    else:
                        await self._hear(message)
        except* EOFError:
            pass
        except* Exception:
            log.warning("%s: its process cannot be understood", self._claim, exc_info=True)
        finally:
            channel.close()

    async def _hear(self, message: Message) -> None:
        """Takes what the process tells. Raises LookupError for what is none of it; GuardLost."""
        match message:
            case {"do": "outcome", "outcome": str(outcome)} if outcome in OUTCOMES:
                if not self._outcome.done():
                    self._outcome.set_result(outcome)
            case {"do": "filled" | "purge" as what}:
                self._is_filled = True
                await self._guard.order({what: True})
            case _:
                raise LookupError

    async def _report(self, outcome: str) -> None:
        claim, run = self._claim, (self._claim.task_id, self._claim.run_id)

        async def call() -> None:
            if outcome == "completed":
                await claim.queue.reportCompleted(*run)
            elif outcome == "failed":
                await claim.queue.reportFailed(*run)
            else:
                await claim.queue.reportException(*run, {"reason": outcome})

        try:
            await insist(call)
        except REFUSED as refused:
            log.info("%s: lost, since the queue takes no report (%s)", claim, refused.status_code)
        else:
            log.info("%s: %s", claim, outcome)


def _limit(payload: Any, most: float | None) -> float | None:
    """Seconds that the task has for all that it does, its mounts and uploads included; None: until its deadline.

    The payload has yet to be checked, here and below.
    """
    wanted = payload.get("maxRunTime") if isinstance(payload, dict) else None
    if isinstance(wanted, int | float) and 0 < wanted < 1e9:
        return float(wanted) if most is None else min(wanted, most)
    return most


def _caches(definition: Mapping[str, Any]) -> dict[str, str]:
    """The caches that the task may have, and where it wants them."""
    payload, scopes = definition["payload"], definition.get("scopes", ())
    mounts, wanted = payload.get("mounts") if isinstance(payload, dict) else None, list[tuple[str, str]]()
    for mount in mounts if isinstance(mounts, list) else ():
        match mount:
            case {"cacheName": str(name), "directory": str(place)}:
                wanted.append((name, place))
    found = wanted[:MOST_CACHES]
    return {name: place for name, place in found if len(place) <= LONGEST_PLACE and may_mount(scopes, name)}


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancels and waits until it has ended."""
    task.cancel()
    await asyncio.wait([task])
