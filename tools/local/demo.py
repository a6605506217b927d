"""`./dev demo`: the main job end to end, on a stack of its own that is gone afterwards.

Creates a task group with the public client, starts reference workers as the load asks for them, kills one of them in
the middle of a task, waits until everything has resolved and the workers have ended, and checks the ends of the tasks
and the events against what must come out.
Killing the host meanwhile is fine: the stack starts it again, and clients and workers retry.
"""

import asyncio
import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import taskcluster
import taskcluster.aio
from rich.console import Console, RenderableType
from rich.live import Live

from shared.queue.events.exchanges import TOPICS
from tools.local import state, ui
from tools.local.appsettings import AppSettingsError
from tools.local.child import ChildError
from tools.local.control import fail, hint
from tools.local.demo_events import EventCounter
from tools.local.demo_tasks import (
    EXAMPLES,
    TASK_QUEUE_ID,
    Status,
    definition,
    differences,
    expected_events,
    in_order,
    is_resolved,
    problem,
    unannounced_claims,
)
from tools.local.demo_view import describe_runs, final_report, tasks_table, workers_in_words
from tools.local.ports import PortTakenError
from tools.local.run import end_with_parent, interruptible, options
from tools.local.stack import Stack
from tools.local.worker_pool import PoolOptions, WorkerPool
from tools.local.workers import describe, load_path

SUBSCRIPTION = "demo"
SHORT_TIMES = {
    "CLAIM_TIMEOUT_SECONDS": "10",
    "DEADLINE_DELAY_SECONDS": "1",
    "LONG_POLL_SECONDS": "5",
    "IDLE_POLL_INTERVAL_SECONDS": "0.5",
}
TAKE_SECONDS = 20
"""Seconds after which a message that a killed host had taken is visible again; on Azure it takes 10 minutes."""
WORKERS = PoolOptions(task_queue_id=TASK_QUEUE_ID, worker_group="demo", maximum=3, polling_interval=2, idle_timeout=4)
"""The options of the workers: as on Azure (docs/workers-azure.md), but with shorter intervals."""
TIME_LIMIT_SECONDS = 180
EVENTS_LIMIT_SECONDS = 20
LOOK_SECONDS = 0.4
MAX_RETRIES = 8
"""Retries of the client: they span about 25 s, longer than a host needs to restart."""


class Demo:
    """One run of the demo on a stack that is up."""

    def __init__(self, stack: Stack, console: Console) -> None:
        self._stack = stack
        self._console = console
        self._work_dir = state.folder(stack.options.ports.api) / "work"
        self._task_ids = {example.name: taskcluster.slugId() for example in EXAMPLES}
        self._statuses: dict[str, Status] = {}
        self._pool = WorkerPool(
            WORKERS,
            self._work_dir,
            state.logs_folder(stack.options.ports.api),
            environment=stack.environment,
        )
        self._next_look = 0.0
        self._events = EventCounter(
            stack.service_bus.connection_string, SUBSCRIPTION, TOPICS, prefix=stack.topic_prefix
        )

    async def run(self) -> list[str]:
        """Runs the whole demo. Returns what went wrong, a sentence each. Raises ChildError if the stack breaks down."""
        shutil.rmtree(self._work_dir, ignore_errors=True)
        self._work_dir.mkdir(parents=True)
        stop = threading.Event()
        background = [
            asyncio.create_task(asyncio.to_thread(self._stack.supervise, stop, self._console.print)),
            asyncio.create_task(self._events.run()),
        ]
        main = asyncio.create_task(self._main())
        try:
            await asyncio.wait([main, *background], return_when=asyncio.FIRST_COMPLETED)
            for task in (*background, main):
                if task.done():
                    task.result()  # a background task that ends has failed
            return main.result()
        finally:
            stop.set()
            for task in (main, background[1]):
                task.cancel()
            await asyncio.gather(main, *background, return_exceptions=True)
            self._pool.end()
            shutil.rmtree(self._work_dir, ignore_errors=True)  # the killed worker has left files in it

    async def _main(self) -> list[str]:
        credentials = {
            "clientId": self._stack.environment["TASKCLUSTER_CLIENT_ID"],
            "accessToken": self._stack.environment["TASKCLUSTER_ACCESS_TOKEN"],
        }
        root_url = self._stack.environment["TASKCLUSTER_ROOT_URL"]
        async with taskcluster.aio.Queue(
            {"rootUrl": root_url, "credentials": credentials, "maxRetries": MAX_RETRIES}
        ) as queue:
            await self._submit(queue)
            problems = await self._watch(queue)
        statuses = list(self._statuses.values())
        expected = expected_events(statuses)
        await self._events.wait_for(expected, EVENTS_LIMIT_SECONDS)
        self._console.print(self._report(expected))
        may_miss = unannounced_claims(statuses) if self._stack.restarts else Counter[str]()
        return problems + differences(expected, self._events.counts, may_miss)

    def _report(self, expected: Counter[str]) -> RenderableType:
        return final_report(EXAMPLES, self._statuses, self._events.counts, expected, self._console.width)

    async def _submit(self, queue: taskcluster.aio.Queue) -> None:
        """Creates the tasks, each after those that it depends on, and cancels those that are to be cancelled."""
        groups = {abandoned: taskcluster.slugId() for abandoned in (False, True)}
        for example in in_order(EXAMPLES):
            group = groups[example.abandoned]
            task = definition(example, task_ids=self._task_ids, task_group_id=group, now=datetime.now(UTC))
            await queue.createTask(self._task_ids[example.name], task)
            if example.cancel:
                await queue.cancelTask(self._task_ids[example.name])
        await queue.sealTaskGroup(groups[True])
        await queue.cancelTaskGroup(groups[True])
        self._console.print(f"created task group {groups[False]}\nsealed and cancelled {groups[True]}")

    async def _watch(self, queue: taskcluster.aio.Queue) -> list[str]:
        """Shows the tasks until all have resolved, and kills the worker of the task that is to lose it."""
        started = time.monotonic()
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while True:
                await self._look(queue)
                await self._scale(queue)
                self._kill_worker_if_due()
                seconds = time.monotonic() - started
                title = f"After {seconds:.0f} s, with {workers_in_words(len(self._pool.workers))}"
                live.update(tasks_table(EXAMPLES, self._statuses, title, self._console.width), refresh=True)
                over = not await self._rerun(queue) and all(map(is_resolved, self._statuses.values()))
                if over and not self._pool.workers:
                    break
                if seconds > TIME_LIMIT_SECONDS:
                    left = workers_in_words(len(self._pool.workers))
                    return [f"after {TIME_LIMIT_SECONDS} s there were {left}, or not all tasks had resolved"]
                await asyncio.sleep(LOOK_SECONDS)
        self._console.print(
            f"{workers_in_words(self._pool.started)} came, {self._pool.most} at a time, and none is left"
        )
        judged = {example.name: problem(example, self._statuses[example.name]) for example in EXAMPLES}
        return [f"{name} {text}" for name, text in judged.items() if text]

    async def _look(self, queue: taskcluster.aio.Queue) -> None:
        """Reads the status of each task that has not resolved, and says what changed."""
        for example in EXAMPLES:
            before = self._statuses.get(example.name)
            if before is not None and is_resolved(before):
                continue
            status = (await queue.status(self._task_ids[example.name]))["status"]
            self._statuses[example.name] = status
            if before is None or describe_runs(before) != describe_runs(status):
                self._console.print(f"{example.name:16} {status['state']:11} {describe_runs(status)}")

    async def _rerun(self, queue: taskcluster.aio.Queue) -> bool:
        """Reruns tasks that have failed and are to have a second try; returns whether there were any."""
        failed = [
            example.name for example in EXAMPLES if example.rerun and self._statuses[example.name]["state"] == "failed"
        ]
        for name in failed:
            self._statuses[name] = (await queue.rerunTask(self._task_ids[name]))["status"]
            self._console.print(f"{name} has failed; rerun")
        return bool(failed)

    async def _scale(self, queue: taskcluster.aio.Queue) -> None:
        """Starts workers for the load in every polling interval. Raises ChildError if one has failed."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + WORKERS.polling_interval
        before = len(self._pool.workers)
        load = await queue._makeHttpRequest("get", load_path(TASK_QUEUE_ID), None)
        look = await asyncio.to_thread(self._pool.look, load["unresolvedTasks"])
        if look.failed:
            raise ChildError(look.failed[0])
        if len(self._pool.workers) != before:
            self._console.print(f"scaled: {describe(look, len(self._pool.workers))}")

    def _kill_worker_if_due(self) -> None:
        for example in EXAMPLES:
            runs = self._statuses[example.name]["runs"]
            if not example.lose_worker or len(runs) != 1 or runs[0]["state"] != "running":
                continue
            name = runs[0]["workerId"]
            worker = self._pool.workers.pop(name, None)
            if worker is not None:
                worker.kill()
                self._console.print(f"killed {name} in the middle of {example.name}; its claim will expire")


def _conclude(console: Console, problems: Sequence[str], port: int) -> None:
    for text in problems:
        console.print(f"[red]wrong:[/] {text}")
    console.print("The demo failed; see " + hint("logs", port) if problems else "Everything ended as it should.")


def _address(stack: Stack) -> str:
    return ui.address(stack.options.ports.api, stack.environment, datetime.now(UTC))


def _stay(stack: Stack, console: Console) -> None:
    """Keeps the stack until a signal comes. Raises ChildError if it breaks down."""
    port = stack.options.ports.api
    console.print(
        f"The stack stays until Ctrl-C. Its console, within a minute (later: {hint('ui', port)}): {_address(stack)}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    with contextlib.suppress(KeyboardInterrupt):
        stack.supervise(threading.Event(), console.print)


def main(port: int, *, stay: bool = False) -> int:
    """Runs the demo on this port; 0 only if everything ended as it should. `stay`: the stack runs on until Ctrl-C."""
    console = Console()
    wanted = options(
        port, subscriptions=(SUBSCRIPTION,), in_memory=True, times={"take": TAKE_SECONDS}, app_settings=SHORT_TIMES
    )
    end_with_parent()
    try:
        with interruptible(), Stack.start(wanted, console.print) as stack:
            watch = f"watch it in a browser, within a minute: {_address(stack)}"
            console.print(watch, markup=False, highlight=False, soft_wrap=True)
            problems = asyncio.run(Demo(stack, console).run())
            if stay:
                _conclude(console, problems, port)
                _stay(stack, console)
    except KeyboardInterrupt:
        console.print("The demo was interrupted; its stack has ended.")
        return 130
    except (ChildError, PortTakenError, AppSettingsError) as error:
        fail(str(error))
    if not stay:
        _conclude(console, problems, port)
    return 1 if problems else 0
