"""One run, from its claim to its report."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing, suppress
from pathlib import Path

from worker.artifacts import Artifacts
from worker.claim import Claim
from worker.execution import Execution, Site, TaskException
from worker.hiding import shown
from worker.livelog import CONTENT_TYPE, LiveLog
from worker.logstore import LogStore
from worker.mounts import check
from worker.payload import Logs, MalformedPayload, Payload, parse
from worker.queue import REFUSED, insist
from worker.shortage import is_shortage
from worker.users import User

log = logging.getLogger("worker")

REPORT_SECONDS = 10.0
"""How long a worker that shuts down waits for a report that is under way, or for its own."""
LOG_SECONDS = 5.0
"""How long it then takes for the rest of the log."""
LOST_LOG_SECONDS = 60.0
"""How long the rest of the log may take of a run that is lost."""


class Run:
    """Executes one claimed run."""

    def __init__(self, claim: Claim, site: Site) -> None:
        self._claim = claim
        self._site = site
        self._executed = False
        self._streaming: asyncio.Task[None] | None = None

    async def run(self, shutdown: asyncio.Event) -> None:
        """Works on the run until it is reported, lost, or the worker shuts down. Raises nothing."""
        claim, site = self._claim, self._site
        log.info("%s: claimed", claim)
        try:
            with site.users.one() as user:
                async with site.folders.one(f"{claim.task_id}-{claim.run_id}", user) as home:
                    with closing(LogStore(home, site.options.log_limit)) as store:
                        await self._live(home, store, user, shutdown)
        except OSError as problem:
            log.error("%s: the worker's disk cannot be used: %s", claim, problem)
            await self._report_exception("resource-unavailable")
        except Exception:
            log.exception("%s: the worker failed", claim)
            await self._report_exception("internal-error")

    async def _live(self, home: Path, store: LogStore, user: User | None, shutdown: asyncio.Event) -> None:
        """Works, keeps the claim, and looks for the shutdown, whichever ends first."""
        self._store = store
        self._logs: list[LiveLog] = []
        work = asyncio.create_task(self._work(Execution(self._claim, self._site, home, store, user)))
        lost = asyncio.create_task(self._claim.keep())
        stop = asyncio.create_task(shutdown.wait())
        try:
            await asyncio.wait((work, lost, stop), return_when=asyncio.FIRST_COMPLETED)
            if stop.done() and self._executed:
                await asyncio.wait((work, lost), timeout=REPORT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await _cancel(work)
                if lost.done():
                    await self._let_go(lost.result())
                else:
                    await self._give_back()
            elif not work.cancelled():
                work.result()
        finally:
            await asyncio.gather(*map(_cancel, filter(None, (lost, stop, self._streaming))))

    async def _work(self, execution: Execution) -> None:
        """Executes and reports. Cancelling it ends the task's processes."""
        options, claim = self._site.options, self._claim
        self._store.say(f"Task {claim.task_id}, run {claim.run_id}, on {options.worker_group}/{options.worker_id}")
        try:
            payload = self._payload()
            succeeded = await execution.execute(payload)
            self._executed = True
        except TaskException as problem:
            await self._end_exceptionally(problem.reason, str(problem))
        except REFUSED as problem:
            await self._end_exceptionally("internal-error", f"The queue has refused a call: {problem}")
        except Exception as problem:
            if isinstance(problem, OSError) and is_shortage(problem):
                log.warning("%s: the worker lacks what the task needs: %s", claim, problem.strerror)
                text = f"The worker lacks what the task needs: {problem.strerror}"
                await self._end_exceptionally("resource-unavailable", text)
            else:
                log.exception("%s: the worker failed", claim)
                await self._end_exceptionally("internal-error", "The worker failed; its own log says how.")
        else:
            await self._finish_log(payload)
            await self._report(succeeded)

    def _payload(self) -> Payload:
        """What the task asks for; from now on its log is shown. Raises TaskException."""
        try:
            payload = parse(self._claim.definition["payload"], most_run_time=self._site.options.max_run_time)
            check(payload, self._claim.definition)
        except MalformedPayload as problem:
            self._logs = [self._log(Logs().live)]
            raise TaskException("malformed-payload", str(problem)) from None
        if payload.features.live_log:
            live = self._log(payload.logs.live)
            self._logs = [live]
            self._streaming = asyncio.create_task(live.stream(self._site.options.log_seconds))
        elif payload.features.backing_log:
            self._logs = [self._log(payload.logs.backing)]
        return payload

    def _log(self, name: str) -> LiveLog:
        return LiveLog(name, self._store, self._claim, self._site.session)

    async def _finish_log(self, payload: Payload | None = None) -> None:
        """Uploads the rest of the log; if both features are on, gives the whole log its second name."""
        if self._streaming is not None:
            await _cancel(self._streaming)
        stored = [await each.finish() for each in self._logs]
        if payload and all(stored) and payload.features.live_log and payload.features.backing_log:
            artifacts = Artifacts(self._claim, self._site.session)
            try:
                await artifacts.link(payload.logs.backing, payload.logs.live, CONTENT_TYPE)
            except REFUSED as refused:
                log.warning("%s: the log gets no second name: %s", self._claim, shown(refused))

    async def _report(self, succeeded: bool) -> None:
        queue, claim = self._claim.queue, self._claim
        call = queue.reportCompleted if succeeded else queue.reportFailed
        try:
            await insist(lambda: call(claim.task_id, claim.run_id))
        except REFUSED as refused:
            log.info("%s: lost, since the queue takes no report (%s)", claim, refused.status_code)
        else:
            log.info("%s: %s", claim, "completed" if succeeded else "failed")

    async def _end_exceptionally(self, reason: str, message: str) -> None:
        """First the report, then the log: a worker in trouble should not risk the report (contract 7.1)."""
        with suppress(OSError):  # the disk may be full
            self._store.say(message)
        await self._report_exception(reason)
        await self._finish_log()

    async def _report_exception(self, reason: str) -> None:
        claim = self._claim
        try:
            await insist(lambda: claim.queue.reportException(claim.task_id, claim.run_id, {"reason": reason}))
        except REFUSED as refused:
            log.info("%s: lost, since the queue takes no report (%s)", claim, refused.status_code)
        else:
            log.info("%s: %s", claim, reason)

    async def _let_go(self, reason: str) -> None:
        """Ends a run that is not this worker's any more. Its log is still uploaded: nobody else writes that."""
        log.info("%s: lost, since %s", self._claim, reason)
        self._store.say(f"The run ends here, since {reason}.")
        await self._finish_log_within(LOST_LOG_SECONDS)

    async def _give_back(self) -> None:
        """The worker shuts down: the queue retries the task at once."""
        self._store.say("The worker shuts down.")
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                await self._report_exception("worker-shutdown")
        except TimeoutError:
            log.warning("%s: could not be given back in time", self._claim)
        await self._finish_log_within(LOG_SECONDS)

    async def _finish_log_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._finish_log()
        except TimeoutError:
            log.warning("%s: the end of its log could not be stored in time", self._claim)


async def _cancel(task: asyncio.Task[object]) -> None:
    """Cancels and waits until it has ended."""
    task.cancel()
    await asyncio.wait([task])
