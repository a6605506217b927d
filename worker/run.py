"""One run, from its claim to its report: the worker's side of it, which no task can hold up.

The task itself is worked on by other processes (runner.py), one for each part of the run. This one keeps the claim,
reports, and does what takes the claim's credentials (claim.py).
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
from collections.abc import Mapping
from typing import Any

from worker.claim import Claim
from worker.context import Json, insist, may_mount
from worker.guard import Guard, GuardLost
from worker.options import Options
from worker.text import log, shown

LONGEST_MESSAGE = 128 << 10
"""Bytes of a message that is taken from a task's process."""
MOST_CACHES, LONGEST_PLACE = 100, 1024
"""What the guard makes for a task: each place may be of many directories."""
DONE = ("completed", "failed")
OUTCOMES = (*DONE, "malformed-payload", "intermittent-task", "resource-unavailable", "internal-error")
REPORT_SECONDS = 10.0
"""How long a worker that shuts down waits for a report."""
SHUTDOWN_SECONDS = 5.0
"""How long it then takes for the rest of the log, and until the guard has put everything back."""


class Run:
    """Executes one claimed run."""

    def __init__(self, claim: Claim, options: Options, guard: Guard) -> None:
        self._claim = claim
        self._options = options
        self._guard = guard
        self._outcome: str | None = "worker-shutdown"
        """What is to be reported if nothing else comes: another worker is to get the task. None: nothing."""
        self._is_filled = self._is_purged = False
        """Whether the mounts are there; whether no cache is to be kept."""

    async def run(self, shutdown: asyncio.Event) -> list[str]:
        """Works on the run until it is reported, lost, or the worker shuts down; then everything is put back. Returns
        what is not as it was before. Raises nothing."""
        log.info("%s: claimed", self._claim)
        self._lost, self._stop = asyncio.create_task(self._claim.keep()), asyncio.create_task(shutdown.wait())
        try:
            self._outcome, why = await self._work()
            is_done = self._outcome in DONE
            if not is_done:  # a worker in trouble should not risk its report (contract 7.1)
                await self._report()
            await self._finish_log(why, is_done=is_done)
            await self._report()
            ending = asyncio.create_task(self._guard.end(filled=self._is_filled, purged=self._is_purged))
            # Without the worker the guard goes on alone.
            return ending.result() if await self._until(ending, SHUTDOWN_SECONDS) else []
        except GuardLost as lost:
            left = str(lost)
        except Exception:
            log.exception("%s: the worker failed", self._claim)
            left, self._outcome = "it failed", self._outcome and "internal-error"
        finally:
            await self._report()
            self._lost.cancel()
            self._stop.cancel()
        return [left]

    async def _work(self) -> tuple[str | None, str]:
        """Works through the parts until one says how it has ended. Returns what to report, and why it ends early."""
        # What the commands decide stays, whatever becomes of artifacts: the first problem counts (generic-worker, too).
        limit, decided = self._options.max_run_time or math.inf, None
        match self._claim.definition["payload"]:  # which has yet to be checked
            case {"maxRunTime": int() | float() as wanted} if 0 < wanted < 1e9:
                limit = min(wanted, limit)
        give_up = time.monotonic() + limit
        for part in ("mounts", "commands", "artifacts"):
            try:
                serving = await self._begin(part)
            except OSError as problem:
                return decided or "resource-unavailable", f"the worker cannot work on it: {problem}"
            if part == "commands" and self._options.task_user is None:  # it may end the guard
                self._outcome = "failed"
            left = give_up - time.monotonic()
            await asyncio.wait((serving, self._lost, self._stop), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            is_over = serving.done()
            how = await self._guard.stop(0 if is_over else self._options.grace_seconds)
            told = serving.result() if is_over else {}
            serving.cancel()
            self._is_purged |= "purge" in told
            if (outcome := told.get("outcome")) == "done":
                self._is_filled = True
                decided = told["result"] if told.get("result") in OUTCOMES else None
                continue
            if outcome in OUTCOMES:
                return decided or outcome, ""
            if self._lost.done():
                return None, f"lost, since {self._lost.result()}"
            if self._stop.done():  # the queue retries the task at once
                return "worker-shutdown", "the worker shuts down"
            if not is_over:
                return decided or "failed", f"ended after maxRunTime, {limit:g} s"
            if how is None or how >= 0:
                return "internal-error", "the process that works on this task has failed"
            # Where no command runs the task cannot have killed it: memory has run out.
            outcome = decided or ("failed" if part == "commands" else "resource-unavailable")
            return outcome, f"the process that works on this task was ended by signal {-how}"
        return "internal-error", "the process that works on this task does not say how it has ended"

    async def _finish_log(self, why: str, *, is_done: bool) -> None:
        """Completes the log, in a limited time, with words on why the run ends early."""
        if why:
            log.info("%s: %s", self._claim, why)
        try:
            serving = await self._begin("log", say=f"The run ends here: {why}." if why else "", isDone=is_done)
        except OSError as problem:
            log.warning("%s: its log is not finished: %s", self._claim, problem)
            return
        await self._until(serving, SHUTDOWN_SECONDS, seconds=400)
        await self._guard.stop(0)

    async def _begin(self, part: str, **more: Any) -> asyncio.Task[Json]:
        """Starts another process that works on a part of the run. Raises OSError, GuardLost."""
        claim = self._claim
        connection = await self._guard.begin(f"{claim.task_id}-{claim.run_id}", _caches(claim.definition))
        begin = {"part": part, "task": claim.definition, "taskId": claim.task_id, "runId": claim.run_id, **more}
        return asyncio.create_task(self._serve(connection, begin))

    async def _serve(self, connection: socket.socket, begin: Json) -> Json:
        """Tells a process what to do, and signs what it asks for, until it ends; what it has told."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=LONGEST_MESSAGE)
        told, answer = Json(), begin
        try:
            while not told:
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
                if not (line := await reader.readline()):
                    break
                await asyncio.sleep(0)  # there may be many, and the claim's time is the same
                match json.loads(line):
                    case {"outcome": str()} as told:
                        pass
                    case message:
                        answer = self._claim.answer(message)
            while await reader.read(LONGEST_MESSAGE):
                pass
        except ConnectionError:
            pass
        except Exception:
            log.warning("%s: its process cannot be understood", self._claim, exc_info=True)
        finally:
            writer.close()
        return told

    async def _report(self) -> None:
        """Reports, once, what is to be reported: until the queue takes or refuses it, or the claim has ended. Nothing
        that ends the claim's renewal ends this: the queue knows best whose the run is."""
        claim, outcome, self._outcome = self._claim, self._outcome, None
        if outcome is None:
            return
        reporting = asyncio.create_task(insist("reporting", lambda: claim.report(outcome)))
        if not await self._until(reporting, REPORT_SECONDS, seconds=claim.seconds_left + REPORT_SECONDS):
            log.warning("%s: not ended as it should be: %s is not reported", claim, outcome)
        elif (problem := reporting.exception()) is not None:
            log.info("%s: lost, since the queue does not take %s: %s", claim, outcome, shown(problem))
        else:
            log.info("%s: %s", claim, outcome)

    async def _until(self, doing: asyncio.Task[Any], at_last: float, seconds: float | None = None) -> bool:
        """Waits for something, for a limited time, and for `at_last` seconds more where the worker shuts down; whether
        it is done. Otherwise it is cancelled."""
        await asyncio.wait((doing, self._stop), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.done():
            await asyncio.wait((doing,), timeout=at_last)
        doing.cancel()
        await asyncio.wait((doing,))
        return not doing.cancelled()


def _caches(definition: Mapping[str, Any]) -> dict[str, str]:
    """Returns the caches that the task may have, and where it wants them."""
    payload, scopes = definition["payload"], definition.get("scopes", ())
    mounts, wanted = payload.get("mounts") if isinstance(payload, dict) else None, list[tuple[str, str]]()
    for mount in mounts if isinstance(mounts, list) else ():
        match mount:
            case {"cacheName": str(name), "directory": str(place)}:
                wanted.append((name, place))
    found = wanted[:MOST_CACHES]
    return {name: place for name, place in found if len(place) <= LONGEST_PLACE and may_mount(scopes, name)}
