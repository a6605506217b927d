"""One run, from its claim to its report."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from worker.artifacts import Artifacts, UploadFailed
from worker.claim import Claim
from worker.payload import MalformedPayload, Payload, parse
from worker.process import SpawnError, TimedOut, execute
from worker.queue import REFUSED, insist
from worker.tasklog import TaskLog

log = logging.getLogger("worker")

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""What a command sees of the worker's environment: nothing secret."""
REPORT_SECONDS = 10.0
"""How long a worker that shuts down waits for a report that is under way, or for its own."""


class _Exception(Exception):
    """The run cannot be brought to an end: the reason to report and what to write to the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Run:
    """Executes one claimed run."""

    def __init__(self, claim: Claim, artifacts: Artifacts, root_url: str, work_dir: Path) -> None:
        self._claim = claim
        self._artifacts = artifacts
        self._root_url = root_url
        self._work_dir = work_dir
        self._executed = False

    async def run(self, shutdown: asyncio.Event) -> None:
        """Works on the run until it is reported, lost, or the worker shuts down. Raises nothing."""
        claim = self._claim
        log.info("%s: claimed", claim)
        home = Path(
            await asyncio.to_thread(tempfile.mkdtemp, prefix=f"{claim.task_id}-{claim.run_id}-", dir=self._work_dir)
        )
        self._log = TaskLog(home / "log", self._artifacts)
        self._folder = home / "task"
        work = asyncio.create_task(self._work())
        lost = asyncio.create_task(claim.keep())
        stop = asyncio.create_task(shutdown.wait())
        try:
            await asyncio.wait((work, lost, stop), return_when=asyncio.FIRST_COMPLETED)
            if stop.done() and self._executed:
                await asyncio.wait((work, lost), timeout=REPORT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await _cancel(work)
                if lost.done():
                    log.info("%s: lost, since %s", claim, lost.result())
                else:
                    await self._give_back()
        finally:
            await asyncio.gather(_cancel(lost), _cancel(stop))
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

    async def _work(self) -> None:
        """Executes and reports. Cancelling it kills the command."""
        try:
            succeeded = await self._execute()
            self._executed = True
            await self._log.finish()
        except _Exception as problem:
            await self._report_exception(problem.reason, str(problem))
        except UploadFailed as problem:
            await self._report_exception("resource-unavailable", f"An artifact could not be uploaded: {problem}")
        except REFUSED as problem:
            await self._report_exception("internal-error", f"The queue has refused a call: {problem}")
        except Exception:
            log.exception("%s: the worker failed", self._claim)
            await self._report_exception("internal-error", "The worker failed; its own log says how.")
        else:
            await self._report(succeeded)

    async def _execute(self) -> bool:
        """Runs the command and uploads what it made; whether all went well. Raises _Exception."""
        claim = self._claim
        self._log.write(f"Task {claim.task_id}, run {claim.run_id}")
        try:
            payload = parse(claim.definition["payload"])
        except MalformedPayload as problem:
            raise _Exception("malformed-payload", f"The payload is malformed:\n{problem}") from None
        streaming = asyncio.create_task(self._log.stream())
        try:
            succeeded = await self._run_command(payload)
        finally:
            await _cancel(streaming)
        uploaded = [await self._upload(name, self._folder / path) for name, path in payload.artifacts.items()]
        return succeeded and all(uploaded)

    async def _run_command(self, payload: Payload) -> bool:
        self._folder.mkdir()
        try:
            exit_code = await execute(
                payload.command,
                folder=self._folder,
                env=self._environment(payload.env),
                log=self._log.path,
                seconds=payload.max_run_time,
            )
        except SpawnError as problem:
            raise _Exception(problem.reason, f"{payload.command[0]} could not be started: {problem}") from None
        except TimedOut:
            self._log.write(f"Killed after maxRunTime, {payload.max_run_time:g} s")
            return False
        self._log.write(f"Exit code {exit_code}" if exit_code >= 0 else f"Ended by signal {-exit_code}")
        return exit_code == 0

    def _environment(self, wanted: Mapping[str, str]) -> dict[str, str]:
        own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        task = {
            "HOME": str(self._folder),
            "TASK_ID": self._claim.task_id,
            "RUN_ID": str(self._claim.run_id),
            "TASKCLUSTER_ROOT_URL": self._root_url,
        }
        return {**own, **task, **wanted}

    async def _upload(self, name: str, path: Path) -> bool:
        """Uploads one of the payload's artifacts, or says in its place why it is not there."""
        problem = self._problem(path)
        if problem is None:
            self._log.write(f"Uploading {name}")
            await self._artifacts.upload(name, path)
            return True
        reason, message = problem
        self._log.write(f"Artifact {name} is missing: {message}")
        await insist(lambda: self._artifacts.report_missing(name, reason, message))
        return False

    def _problem(self, path: Path) -> tuple[str, str] | None:
        """Why a file cannot be an artifact: a reason (contract 7.2), and in words."""
        if not path.exists():
            return "file-missing-on-worker", f"{path.name} does not exist"
        if not path.resolve().is_relative_to(self._folder.resolve()) or not path.is_file():
            return "invalid-resource-on-worker", f"{path.name} is no file in the task's folder"
        if not os.access(path, os.R_OK):
            return "file-not-readable-on-worker", f"{path.name} cannot be read"
        return None

    async def _report(self, succeeded: bool) -> None:
        queue, claim = self._claim.queue, self._claim
        call = queue.reportCompleted if succeeded else queue.reportFailed
        try:
            await insist(lambda: call(claim.task_id, claim.run_id))
        except REFUSED as refused:
            log.info("%s: lost, since the queue takes no report (%s)", claim, refused.status_code)
        else:
            log.info("%s: %s", claim, "completed" if succeeded else "failed")

    async def _report_exception(self, reason: str, message: str) -> None:
        """First the report, then the log: a worker in trouble should not risk the report (contract 7.1)."""
        claim = self._claim
        self._log.write(message)
        try:
            await insist(lambda: claim.queue.reportException(claim.task_id, claim.run_id, {"reason": reason}))
            log.info("%s: %s", claim, reason)
            await self._log.finish()
        except REFUSED as refused:
            log.info("%s: lost, since the queue takes no report (%s)", claim, refused.status_code)

    async def _give_back(self) -> None:
        """The worker shuts down: the queue retries the task at once."""
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                await self._report_exception("worker-shutdown", "The worker shuts down.")
        except TimeoutError:
            log.warning("%s: could not be given back in time", self._claim)


async def _cancel(task: asyncio.Task[object]) -> None:
    """Cancels and waits until it has ended."""
    task.cancel()
    await asyncio.wait([task])
