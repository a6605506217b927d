"""The worker: asks for a task, has it executed, and asks for the next one, until SIGTERM or SIGINT. A second one ends
it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping

import aiohttp
import psutil  # type: ignore[import-untyped]  # comes without types
from taskcluster.aio import Queue

from worker.claim import Claim
from worker.context import REFUSED, TROUBLE, Json, pauses
from worker.guard import Guard, GuardLost
from worker.options import TOKEN_FILE, Options, parse
from worker.queue import ClaimWork, SignedUrls
from worker.run import Run
from worker.text import Formatter, log, shown
from worker.users import check_rights, hide

SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT_REFUSED = 1
EXIT_CHANGED = 3
"""A task has left something behind, or something is missing: a new worker has to take its place."""
SHARED_USER = """tasks run as the worker's own user, %s: they reach its files and processes, its token where it comes \
by a variable (not by %s), and what earlier tasks have left; for tasks of others use --task-user, as root on Linux"""
CONNECTIONS = 32
"""At a time, for all calls of the worker. What tasks transfer themselves is not among them."""
MAY_GROW = {"descriptors": CONNECTIONS, "MiB of memory": 128}
"""How much more the worker may hold than before its first task: a definition has up to 10 MiB."""


def held() -> dict[str, int]:
    """Returns what this process holds of the machine, but for garbage."""
    gc.collect()
    process = psutil.Process()
    return {"descriptors": process.num_fds(), "MiB of memory": process.memory_info().rss >> 20}


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Returns what it holds more than it may, in words."""
    found = [what for what, most in MAY_GROW.items() if now[what] > before[what] + most]
    return [f"the worker has {now[what]} {what}, and had {before[what]}" for what in found]


async def work(options: Options) -> int:
    """Runs a worker; the exit code."""
    loop, shutdown = asyncio.get_running_loop(), asyncio.Event()

    def asked(number: signal.Signals) -> None:
        log.info("%s: giving back what is running; once more ends the worker at once", number.name)
        for each in SIGNALS:
            loop.remove_signal_handler(each)
        shutdown.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, asked, number)
    where = f"{options.task_queue_id} at {options.root_url} ({options.poll_mode})"
    log.info("%s/%s takes tasks of %s", options.worker_group, options.worker_id, where)
    if options.task_user is None:
        log.warning(SHARED_USER, os.getuid() or "root", TOKEN_FILE)
    try:
        if options.task_user is not None:
            check_rights()
        connector, timeout = aiohttp.TCPConnector(limit=CONNECTIONS), aiohttp.ClientTimeout(60)  # claimWork waits 20 s
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, Guard(options) as guard:

            def client(credentials: Mapping[str, str]) -> Queue:
                return Queue({"rootUrl": options.root_url, "credentials": dict(credentials)}, session=session)

            def begin(claimed: Json) -> Run:
                return Run(Claim(claimed, client, options), options, guard)

            kind = SignedUrls if options.poll_mode == "signed" else ClaimWork
            source = kind(client(options.credentials), session, options)
            left = await take_work(options, source, begin, guard, shutdown)
    except REFUSED as refused:
        log.error("the queue does not let this worker ask for work: %s", shown(refused))
        return EXIT_REFUSED
    except (OSError, GuardLost) as problem:
        log.error("the worker cannot go on: %s", problem)
        return EXIT_REFUSED
    if left:
        log.error("the worker ends, since it is not as it was before its last task: %s", "; ".join(left))
    return EXIT_CHANGED if left else 0


async def take_work(
    options: Options, source: ClaimWork, begin: Callable[[Json], Run], guard: Guard, shutdown: asyncio.Event
) -> list[str]:
    """Asks and executes, until shut down, idle for too long, after the last task that it may take, or where something
    is not as it was before, which is what it returns. Raises REFUSED when the queue does not let it ask for work."""
    trouble_pauses, taken, idle_since, before = pauses(longest=60), 0, time.monotonic(), held()
    while taken != options.max_tasks and not shutdown.is_set():
        if guard.is_lost:  # by a process that an earlier task has left
            return ["its guard has ended"]
        # A shutdown waits for the answer: it may bring a claim, which can then be given back at once.
        try:
            claim, trouble_pauses = await source.claim(), pauses(longest=60)
            pause = source.pause() if claim is None else 0.0
        except TROUBLE as trouble:
            log.warning("no work can be asked for at %s, trying again: %s", options.root_url, shown(trouble))
            claim, pause = None, next(trouble_pauses)
        if claim is not None:
            left = await begin(claim).run(shutdown)
            taken, idle_since = taken + 1, time.monotonic()
            if left := [*left, *grown(before, held())]:
                return left
            continue
        if options.idle_timeout is not None:  # time in which the service cannot be reached is idle time
            patience = options.idle_timeout - (time.monotonic() - idle_since)
            if patience <= 0:
                log.info("no task for %g seconds: the worker ends", options.idle_timeout)
                break
            pause = min(pause, patience)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(shutdown.wait(), pause)
    return []


def main() -> None:
    """Runs the command line."""
    hide()
    options = parse(sys.argv[1:], os.environ)
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[output])
    # Of what the client repeats, only what fails in the end is worth a line: by 503 claimWork says that there is work.
    logging.getLogger("taskcluster.aio.retry").setLevel(logging.ERROR)
    sys.exit(asyncio.run(work(options)))
