"""The process that works on one task: mounts, commands, log, proxy, artifacts.

The guard forks it (guard.py). It gives up all rights but those of the task's user before it looks at the task, and has
no token: what takes credentials it asks the worker for (claim.py). Whatever the task does to it, it does to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import os
import socket
import sys
import traceback
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

import aiohttp

from worker import processes
from worker.archives import BadContent
from worker.artifacts import create, upload_all
from worker.log import CONTENT_TYPE, LiveLog, LogStore
from worker.messages import LONGEST_OF_WORKER, Asking, Channel, Context, Message, Refused, TaskException, Unreached
from worker.mounts import place
from worker.payload import LOGS, Payload, parse
from worker.proxy import Proxy
from worker.text import Formatter, lines, shown
from worker.users import User, become, bounded_memory, is_shortage

log = logging.getLogger("worker")

WARNINGS = 20
"""Messages that a task's process may add to the worker's own log."""

for name in ("concurrent.futures.thread", "encodings.cp437", "encodings.idna", "encodings.raw_unicode_escape"):
    importlib.import_module(name)  # now: the task's user may not be allowed to read what is loaded when it is needed


class Runner:
    """One run's task, from its payload to the end of its log."""

    def __init__(self, task: Context, begin: Message, store: LogStore, user: User | None) -> None:
        """`begin`: what the worker has said of the run (run.py)."""
        self._task = task
        self._begin = begin
        self._store = store
        self._user = user
        self._log: LiveLog | None = None
        self._streaming: asyncio.Task[None] | None = None

    async def finish(self, text: str, *, is_failed: bool) -> None:
        """Writes the end of the log of a run whose process was killed."""
        payload = None
        with contextlib.suppress(TaskException):
            payload = self._payload()
        self._task.say(text)
        await self._finish_log(payload if is_failed else None)

    async def run(self, ancestor: int) -> None:
        """Executes, and tells the worker how that ended. Whatever ends it earlier kills this process.

        First the report, then the log: a worker in trouble should not risk the report (contract 7.1). `ancestor`: the
        process that all of the task descend from (processes.py).
        """
        begin, payload, outcome, text = self._begin, None, "internal-error", ""
        try:
            self._task.say(f"Task {begin['taskId']}, run {begin['runId']}, on {begin['worker']}")
            payload = self._payload()
            outcome = "completed" if await self._execute(payload, ancestor) else "failed"
        except BadContent as problem:
            outcome, text = "failed", str(problem)
        except TaskException as problem:
            outcome, text = problem.reason, str(problem)
        except Refused as refused:
            text = f"The queue has refused a call: {refused}"
        except Unreached as trouble:
            outcome, text = "resource-unavailable", f"An artifact could not be stored: {trouble}"
        except Exception as problem:
            text = f"The worker lacks what the task needs: {shown(problem)}"
            if is_shortage(problem):
                outcome = "resource-unavailable"
                log.warning("%s", text)
            else:
                text = "The worker failed; its own log says how."
                log.exception("the worker failed")
        with contextlib.suppress(OSError):  # the disk may be full
            self._task.say(text)
        await self._task.worker.tell("outcome", outcome=outcome)
        await self._finish_log(payload if outcome in ("completed", "failed") else None)

    def _payload(self) -> Payload:
        """What the task asks for; from now on its log is shown. Raises TaskException."""
        self._log = LiveLog(LOGS["live"], self._store, self._task)
        payload = parse(self._begin["task"], most_run_time=self._begin["mostRunTime"])
        is_live, is_kept = payload["features"]["liveLog"], payload["features"]["backingLog"]
        name = payload["logs"]["live" if is_live else "backing"]
        self._log = LiveLog(name, self._store, self._task) if is_live or is_kept else None
        if self._log is not None and is_live:
            self._streaming = asyncio.create_task(self._log.stream(self._begin["logSeconds"]))
        return payload

    async def _execute(self, payload: Payload, ancestor: int) -> bool:
        """Whether the task has completed, or else failed.

        Raises BadContent, TaskException; Refused, Unreached; OSError for what the machine lacks.
        """
        task, begin, codes, folder = self._task, self._begin, payload["onExitStatus"], str(self._task.folder)
        # The worker's own variables come last: no payload changes what a task is told of itself.
        env = {"HOME": folder, **begin["passedOn"]}
        env |= {} if self._user is None else {"USER": self._user.name, "LOGNAME": self._user.name}
        env |= {**payload["env"], **begin["environment"], "TASK_WORKDIR": folder}
        with bounded_memory():
            for mount in payload["mounts"]:
                await place(task, mount, begin["caches"])
        await task.worker.tell("filled")
        async with AsyncExitStack() as stack:
            if payload["features"]["taskclusterProxy"]:
                proxy = Proxy(begin["rootUrl"], task.worker, self._user)
                env["TASKCLUSTER_PROXY_URL"] = await stack.enter_async_context(proxy.serving())
            exit_code = await processes.run(
                payload["command"], task.folder, env, self._store, ancestor=ancestor, user=self._user
            )
        task.say(f"Exit code {exit_code}" if exit_code >= 0 else f"Ended by signal {-exit_code}")
        with bounded_memory():
            uploaded = await upload_all(task, payload["artifacts"])
        if exit_code in codes["purgeCaches"]:
            task.say(f"The task's caches are purged, since its exit code is {exit_code}")
            await task.worker.tell("purge")
        if exit_code in codes["retry"]:
            raise TaskException("intermittent-task", f"The task is to be retried, since its exit code is {exit_code}")
        return exit_code == 0 and uploaded

    async def _finish_log(self, payload: Payload | None = None) -> None:
        """Uploads the rest of the log; if both features are on, gives the whole log its second name."""
        if self._streaming is not None:
            self._streaming.cancel()
            await asyncio.wait([self._streaming])
        is_stored = self._log is not None and await self._log.finish()
        if payload and is_stored and payload["features"]["liveLog"] and payload["features"]["backingLog"]:
            try:
                names = {"name": payload["logs"]["backing"], "artifact": payload["logs"]["live"]}
                await create(self._task, **names, storageType="link", contentType=CONTENT_TYPE)
            except (Refused, Unreached) as refused:
                log.warning("the log gets no second name: %s", shown(refused))


async def _main(connection: socket.socket, file: int, ancestor: int, user: User | None) -> None:
    worker = Asking(await Channel.over(connection, LONGEST_OF_WORKER))
    begin = await worker.begin()
    output, warned = logging.StreamHandler(sys.stderr), itertools.count()
    output.setFormatter(Formatter(f"%(asctime)s %(levelname)s {begin['taskId']}/{begin['runId']}: %(message)s"))
    output.addFilter(lambda _: next(warned) < WARNINGS)
    logging.basicConfig(level=logging.WARNING, handlers=[output], force=True)
    store = LogStore(file, begin["logLimit"])
    async with aiohttp.ClientSession() as session:
        task = Context(Path(begin["folder"]), begin["task"]["expires"], worker, session, store.say)
        runner = Runner(task, begin, store, user)
        if "finish" in begin:
            await runner.finish(begin["finish"], is_failed=begin["isFailed"])
        else:
            await runner.run(ancestor)


def main(connection: int, file: int, user: User | None) -> NoReturn:
    """Works on a task, in a process that the guard has just forked. It ends without waiting for its threads.

    `connection`: a socket to the worker. `file`: that of the log. `user`: whom the task runs as; None: the worker's
    own.
    """
    code, ancestor = 1, os.getppid()
    try:
        become(user)
        asyncio.run(_main(socket.socket(fileno=connection), file, ancestor, user))
        code = 0
    except BaseException:
        print(*lines(traceback.format_exc()), sep="\n", file=sys.stderr, flush=True)
    finally:
        os._exit(code)
