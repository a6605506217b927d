"""The process that works on a part of one run: its mounts, its commands, its artifacts, or the end of its log.

The guard forks it (guard.py). It gives up all rights but those of the task's user before it looks at the task, and has
no token: what takes credentials it asks the worker for (claim.py). Whatever the task does to it, it does to itself: the
next part is another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import itertools
import logging
import os
import resource
import signal
import socket
import sys
import traceback
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import aiohttp

from worker.artifacts import upload_all
from worker.context import REFUSED, TRIES, TROUBLE, Asking, Context, Json, TaskException, insist
from worker.log import CONTENT_TYPE, LiveLog, LogStore
from worker.mounts import place
from worker.options import Options
from worker.payload import LOGS, parse
from worker.proxy import Proxy
from worker.text import Formatter, lines, log, shown
from worker.users import become, is_shortage, limit

_TASKS_FAULT = {errno.E2BIG, errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOEXEC}
_TASKS_FAULT |= {errno.ENOTDIR}

for name in ("concurrent.futures.thread", "encodings.cp437", "encodings.idna", "encodings.raw_unicode_escape"):
    importlib.import_module(name)  # now: the task's user may not be allowed to read what is loaded when it is needed


async def work(task: Context, store: LogStore) -> Json:
    """Does a part of the run but for `log`; what to tell the worker of it. What ends it earlier kills this process."""
    begin, options, outcome, text = task.begin, task.options, "internal-error", ""
    streaming: asyncio.Task[None] | None = None
    try:
        if begin["part"] == "mounts":
            task.say(f"Task {begin['taskId']}, run {begin['runId']}, on {options.worker_group}/{options.worker_id}")
        payload = parse(begin["task"], most_run_time=options.max_run_time)
        if payload["features"]["liveLog"]:
            live = LiveLog(payload["logs"][0], store, task)
            streaming = asyncio.create_task(live.stream(options.log_seconds))
        if begin["part"] == "commands":
            return await _execute(task, store, payload)
        if begin["part"] == "artifacts":
            return {"outcome": "completed" if await upload_all(task, payload["artifacts"]) else "failed"}
        for mount in payload["mounts"]:
            await place(task, mount)
        return {"outcome": "done"}
    except TaskException as problem:
        outcome, text = problem.reason, str(problem)
    except REFUSED as refused:
        text = f"The queue has refused a call: {refused}"
    except TROUBLE as trouble:
        outcome, text = "resource-unavailable", f"An artifact could not be stored: {shown(trouble)}"
    except Exception as problem:
        if is_shortage(problem):
            outcome, text = "resource-unavailable", f"The worker lacks what the task needs: {shown(problem)}"
            log.warning("%s", text)
        else:
            text = "The worker failed; its own log says how."
            log.exception("the worker failed")
    finally:
        if streaming is not None:  # the worker signs nothing more once it has been told how this ends
            streaming.cancel()
            await asyncio.wait((streaming,))
    task.say(text)
    return {"outcome": outcome}


async def _execute(task: Context, store: LogStore, payload: Json) -> Json:
    """Runs the commands. What the last exit code decides stays, whatever becomes of artifacts: `result`."""
    begin, options, user, folder = task.begin, task.options, task.options.task_user, str(task.folder)
    known = {} if user is None else {"USER": user.name, "LOGNAME": user.name}
    env = {"HOME": folder, **os.environ, **known, **payload["env"]}
    env |= {  # at last: no payload changes what a task is told of itself
        "TASK_ID": begin["taskId"],
        "RUN_ID": str(begin["runId"]),
        "TASK_GROUP_ID": begin["task"]["taskGroupId"],
        "TASK_WORKDIR": folder,
        "TASKCLUSTER_ROOT_URL": options.root_url,
        "TASKCLUSTER_WORKER_GROUP": options.worker_group,
        "TASKCLUSTER_WORKER_TYPE": options.task_queue_id.partition("/")[2],
    }
    async with contextlib.AsyncExitStack() as stack:
        if payload["features"]["taskclusterProxy"]:
            proxy = Proxy(options.root_url.rstrip("/"), task.worker, user)
            env["TASKCLUSTER_PROXY_URL"] = await stack.enter_async_context(proxy.serving())
        exit_code = await _run(payload["command"], task.folder, env, store)
    task.say(f"Exit code {exit_code}" if exit_code >= 0 else f"Ended by signal {-exit_code}")
    codes, told = payload["onExitStatus"], Json(outcome="done")
    if exit_code in codes["purgeCaches"]:
        task.say(f"The task's caches are purged, since its exit code is {exit_code}")
        told["purge"] = True
    if exit_code in codes["retry"]:
        task.say(f"The task is to be retried, since its exit code is {exit_code}")
        told["result"] = "intermittent-task"
    elif exit_code != 0:
        told["result"] = "failed"
    return told


async def _finish_log(task: Context, store: LogStore) -> Json:
    """Uploads the rest of the log; where the run is done, gives it its second name."""
    begin, names = task.begin, [LOGS["live"]]
    with contextlib.suppress(TaskException):
        names = parse(begin["task"], most_run_time=task.options.max_run_time)["logs"]
    task.say(begin["say"])
    try:
        if names:
            live = LiveLog(names[0], store, task)
            await insist("storing the log", lambda: live.upload(is_over=True), TRIES)
        if begin["isDone"] and len(names) > 1:
            link = {"storageType": "link", "contentType": CONTENT_TYPE, "artifact": names[0]}
            await insist("naming the log", lambda: task.create(names[1], **link), TRIES)
    except (*REFUSED, *TROUBLE) as problem:  # no task fails because of its log
        log.warning("the log is not stored: %s", shown(problem))
    return {"outcome": "done"}


async def _run(commands: Sequence[Sequence[str]], folder: Path, env: Mapping[str, str], store: LogStore) -> int:
    """Runs commands, one after the other until one fails; the last exit code, negative for a signal. Processes that
    they leave go on. Raises TaskException; OSError when the output cannot be kept."""
    asked = list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))  # commands are asked, too: no other begins
    receiving, sending = os.pipe()
    os.set_blocking(receiving, False)
    loop, code = asyncio.get_running_loop(), 0
    silent: asyncio.Future[None] = loop.create_future()
    """Whether nothing can come any more, or why it cannot be kept."""

    def copy() -> None:
        try:
            if found := os.read(receiving, 1 << 20):  # as much as a pipe may hold
                store.write(found)
            elif loop.remove_reader(receiving):
                silent.set_result(None)
        except BlockingIOError:
            pass
        except OSError as problem:
            loop.remove_reader(receiving)
            silent.set_exception(problem)

    loop.add_reader(receiving, copy)
    try:
        for number, command in enumerate(commands, start=1):
            if len(commands) > 1:
                store.say(f"Command {number} of {len(commands)}")
            ending = asyncio.create_task((await _start(command, folder, env, sending)).wait())
            await asyncio.wait((ending, silent), return_when=asyncio.FIRST_COMPLETED)
            if silent.done() or (code := ending.result()) != 0 or asked:
                break
        if asked:  # others of the task may still be ending: without this pipe their last words would kill them
            os.close(sending)
            await asyncio.wait((silent,))
    finally:
        if loop.remove_reader(receiving):
            copy()  # what was written last
    if silent.done():
        silent.result()
    return code


async def _start(command: Sequence[str], folder: Path, env: Mapping[str, str], output: int) -> Process:
    """Starts a command in a session of its own. Raises TaskException."""
    try:
        return await create_subprocess_exec(
            *command, cwd=folder, env=env, start_new_session=True, stdin=DEVNULL, stdout=output, stderr=output
        )
    except OSError as problem:
        other = "resource-unavailable" if is_shortage(problem) else "internal-error"
        reason = "malformed-payload" if problem.errno in _TASKS_FAULT else other
        raise TaskException(reason, f"{command[0]} could not be started: {problem.strerror}") from None


async def _main(worker: Asking, file: int, folder: Path, caches: Mapping[str, bool | str], options: Options) -> None:
    begin = worker.receive()
    if begin["part"] != "commands":
        limit(resource.RLIMIT_AS, 2 << 30)  # bytes: the archives of mounts may ask for any amount
    output, warned = logging.StreamHandler(sys.stderr), itertools.count()
    output.setFormatter(Formatter(f"%(asctime)s %(levelname)s {begin['taskId']}/{begin['runId']}: %(message)s"))
    output.addFilter(lambda _: next(warned) < 20)  # it is the worker's own log
    logging.basicConfig(level=logging.WARNING, handlers=[output], force=True)
    store = LogStore(file, options.log_limit << 20)
    timeout = aiohttp.ClientTimeout(total=60)  # of whatever says nothing else
    calls = aiohttp.ClientSession(timeout=timeout, middlewares=[worker.sign])
    async with calls, aiohttp.ClientSession(timeout=timeout) as session:
        context = Context(begin, folder, caches, options, worker, calls, session, store.say)
        worker.tell(await (_finish_log if begin["part"] == "log" else work)(context, store))


def main(connection: int, file: int, folder: Path, caches: Mapping[str, bool | str], options: Options) -> NoReturn:
    """Works on a task, in a process that the guard has just forked. It ends without waiting for its threads.

    `connection`: a socket to the worker, which notices by it that this process has ended. `file`: that of the log.
    `folder`, `caches`: the task's, as WorkDirectory.begin says. `options`: the worker's, without its credentials.
    """
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing that a part does needs time to end, but for commands
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        become(options.task_user)
        asyncio.run(_main(Asking(socket.socket(fileno=connection)), file, folder, caches, options))
        code = 0
    except BaseException:
        print(*lines(traceback.format_exc()), sep="\n", file=sys.stderr, flush=True)
    finally:
        os._exit(code)
