"""Endpoints on task queues, and on what is pending and running in them (contract 2.1, 8, 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from shared.api.endpoint import PAGING, Call, Endpoint
from shared.api.validation import continued, limit_of, start_of
from shared.auth.audit import Audit
from shared.base.dates import format_date
from shared.base.frozen import dataclass
from shared.queue.claims.poll_urls import WaitingWorkerCounts
from shared.queue.pools.directory import DirectoryEntry
from shared.queue.pools.index import Counts
from shared.queue.pools.models import (
    ListClaimedTasksResponse,
    ListPendingTasksResponse,
    ListTaskQueuesResponse,
    ListTaskQueueStatesResponse,
    PendingTasksResponse,
    TaskQueueCountsListResponse,
    TaskQueueCountsRequest,
    TaskQueueCountsResponse,
    TaskQueueLoadResponse,
    TaskQueueResponse,
)
from shared.queue.pools.states import CurrentTaskQueue, Stall, TaskQueueStates
from shared.queue.pools.views import Directory, ListedRun, PoolViews
from shared.queue.pools.workers import Workers
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class PoolServices:
    """What the endpoints of provisioners, task queues and workers call."""

    runtime: Runtime
    audit: Audit
    directory: Directory
    pool_views: PoolViews
    task_queue_states: TaskQueueStates
    waiting_workers: WaitingWorkerCounts
    workers: Workers


async def list_task_queues(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """listTaskQueues."""
    page = await services.directory.task_queues(start=start_of(call.query), limit=limit_of(call.query))
    return page_of("taskQueues", page, _task_queue)


async def list_task_queue_states(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """listTaskQueueStates."""
    page = await services.task_queue_states.page(start=start_of(call.query), limit=limit_of(call.query))
    return page_of("taskQueues", page, _state)


async def get_task_queue(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """getTaskQueue."""
    return _task_queue(await services.directory.task_queue(call.params["taskQueueId"]))


async def pending_tasks(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """pendingTasks."""
    task_queue_id = call.params["taskQueueId"]
    return {**ids_of(task_queue_id), "pendingTasks": await services.pool_views.pending_count(task_queue_id)}


async def task_queue_counts(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """taskQueueCounts."""
    task_queue_id = call.params["taskQueueId"]
    return _counts(task_queue_id, await services.pool_views.counts(task_queue_id))


async def task_queue_load(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """taskQueueLoad."""
    task_queue_id = call.params["taskQueueId"]
    counts, stall = await services.pool_views.load(task_queue_id)
    return {
        "taskQueueId": task_queue_id,
        "pendingTasks": counts.pending,
        "claimedTasks": counts.claimed,
        "unresolvedTasks": counts.unresolved,
        "waitingWorkers": services.waiting_workers.of_task_queue(task_queue_id),
        **_stalled(stall),
    }


async def task_queue_counts_batch(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """taskQueueCountsBatch: one task queue that is not allowed fails the whole."""
    task_queue_ids = call.payload(TaskQueueCountsRequest).taskQueueIds
    await call.authorise({"taskQueueIds": task_queue_ids})
    found = await services.pool_views.counts_of_many(task_queue_ids)
    return {"taskQueueCounts": [_counts(task_queue_id, counts) for task_queue_id, counts in found]}


async def list_pending_tasks(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """listPendingTasks."""
    runs, resume = await services.pool_views.pending(
        call.params["taskQueueId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return {"tasks": [_pending(run) for run in runs], **continued(resume)}


async def list_claimed_tasks(services: PoolServices, call: Call) -> Mapping[str, Any]:
    """listClaimedTasks."""
    runs, resume = await services.pool_views.claimed(
        call.params["taskQueueId"], start=start_of(call.query), limit=limit_of(call.query)
    )
    return {"tasks": [_claimed(run) for run in runs], **continued(resume)}


Item = TypeVar("Item")


def page_of(
    name: str, page: tuple[list[Item], str | None], shown: Callable[[Item], Mapping[str, Any]]
) -> dict[str, Any]:
    """The JSON of a page of a list, its items under `name`."""
    entries, resume = page
    return {name: [shown(entry) for entry in entries], **continued(resume)}


def described(entry: DirectoryEntry) -> dict[str, Any]:
    """What provisioners, worker types and task queues have in common."""
    return {
        "stability": entry.stability,
        "description": entry.description,
        "expires": format_date(entry.expires),
        "lastDateActive": format_date(entry.last_active),
    }


def ids_of(task_queue_id: str) -> dict[str, str]:
    """A task queue's id, whole and in its two parts."""
    provisioner_id, worker_type = task_queue_id.split("/", 1)
    return {"provisionerId": provisioner_id, "workerType": worker_type, "taskQueueId": task_queue_id}


def _state(state: CurrentTaskQueue) -> dict[str, Any]:
    oldest = state.snapshot.oldest
    seen = state.entry and {
        "lastDateActive": format_date(state.entry.last_active),
        "description": state.entry.description,
    }
    return {
        **_counts(state.task_queue_id, state.snapshot.counts),
        "workers": state.workers.known,
        "quarantinedWorkers": state.workers.quarantined,
        **({} if oldest is None else {"oldestPending": format_date(oldest)}),
        **(seen or {}),
        **_stalled(state.stall),
    }


def _stalled(stall: Stall | None) -> dict[str, Any]:
    return {} if stall is None else {"stalled": {"reason": stall.reason, "message": stall.message}}


def _task_queue(entry: DirectoryEntry) -> dict[str, Any]:
    return {"taskQueueId": entry.name, **described(entry)}


def _counts(task_queue_id: str, counts: Counts) -> dict[str, Any]:
    return {**ids_of(task_queue_id), "pendingTasks": counts.pending, "claimedTasks": counts.claimed}


def _pending(listed: ListedRun) -> dict[str, Any]:
    run = listed.loaded.task.runs[listed.run_id]
    return {
        "taskId": listed.loaded.task.task_id,
        "runId": listed.run_id,
        "task": listed.definition,
        "inserted": format_date(run.scheduled),
    }


def _claimed(listed: ListedRun) -> dict[str, Any]:
    run = listed.loaded.task.runs[listed.run_id]
    return {
        "taskId": listed.loaded.task.task_id,
        "runId": listed.run_id,
        "workerGroup": run.worker_group,
        "workerId": run.worker_id,
        "claimed": format_date(run.started or run.scheduled),
        "task": listed.definition,
    }


_METADATA = "Worker Metadata"
_TASKS = "Tasks"

ENDPOINTS: tuple[Endpoint[PoolServices], ...] = (
    Endpoint(
        name="listTaskQueues",
        method="GET",
        route="/task-queues",
        handler=list_task_queues,
        title="Get a list of all active task queues",
        description="Lists the task queues that are in use, a page at a time, in the order of taskQueueId.",
        category=_METADATA,
        scopes="queue:list-task-queues",
        query=PAGING,
        output=ListTaskQueuesResponse,
    ),
    Endpoint(
        name="getTaskQueue",
        method="GET",
        route="/task-queues/<taskQueueId>",
        handler=get_task_queue,
        title="Get a task queue",
        description="Returns a task queue: when it expires, and when a worker last asked for its work.",
        category=_METADATA,
        scopes="queue:get-task-queue:<taskQueueId>",
        output=TaskQueueResponse,
    ),
    Endpoint(
        name="pendingTasks",
        method="GET",
        route="/pending/<taskQueueId>",
        handler=pending_tasks,
        title="Get Number of Pending Tasks",
        description="Returns how many runs are pending in a task queue. Runs that were canceled or are past their "
        "deadline do not count.",
        category=_TASKS,
        scopes="queue:pending-count:<taskQueueId>",
        output=PendingTasksResponse,
        stability="deprecated",
        raw_slash=True,
    ),
    Endpoint(
        name="taskQueueCounts",
        method="GET",
        route="/task-queues/<taskQueueId>/counts",
        handler=task_queue_counts,
        title="Get Number of Pending and Claimed Tasks",
        description="Returns how many runs of a task queue are pending, and how many are running.",
        category=_TASKS,
        scopes={"AllOf": ["queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"]},
        output=TaskQueueCountsResponse,
        raw_slash=True,
    ),
    Endpoint(
        name="listTaskQueueStates",
        method="GET",
        route="/task-queue-states",
        handler=list_task_queue_states,
        title="List Task Queues with Their Counts",
        description="Lists the task queues that are in use or hold a task, also those that no worker has ever asked, "
        "each with its counts and the time since which its oldest pending run waits; at most 100 a page. A page may be "
        "short while there are more. Not part of the public API.",
        category=_TASKS,
        scopes="queue:list-task-queue-states",
        query=PAGING,
        output=ListTaskQueueStatesResponse,
        stability="experimental",
    ),
    Endpoint(
        name="taskQueueCountsBatch",
        method="POST",
        route="/task-queues/counts",
        handler=task_queue_counts_batch,
        title="Get Pending and Claimed Task Counts for Multiple Task Queues",
        description="As taskQueueCounts, for up to a thousand task queues. The caller needs the scopes for every "
        "one of them.",
        category=_TASKS,
        scopes={
            "AllOf": [
                {"for": "taskQueueId", "in": "taskQueueIds", "each": "queue:pending-count:<taskQueueId>"},
                {"for": "taskQueueId", "in": "taskQueueIds", "each": "queue:claimed-count:<taskQueueId>"},
            ]
        },
        input=TaskQueueCountsRequest,
        output=TaskQueueCountsListResponse,
        stability="experimental",
    ),
    Endpoint(
        name="taskQueueLoad",
        method="GET",
        route="/task-queues/<taskQueueId>/load",
        handler=task_queue_load,
        title="Get the Number of Unresolved Tasks",
        description="As taskQueueCounts, with the sum of both counts: the number by which workers are scaled. A scaler "
        "that subtracts the workers that are running starts one for each run that waits. Also the workers that wait, "
        "as far as the process that answers knows: those in claimWork, and those with unexpired URLs of pollTaskUrls; "
        "and `stalled` where tasks wait and nothing takes them.",
        category=_TASKS,
        scopes={"AllOf": ["queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"]},
        output=TaskQueueLoadResponse,
        stability="experimental",
        raw_slash=True,
    ),
    Endpoint(
        name="listPendingTasks",
        method="GET",
        route="/task-queues/<taskQueueId>/pending",
        handler=list_pending_tasks,
        title="List Pending Tasks",
        description="Lists the pending runs of a task queue, a page at a time, first scheduled first.",
        category=_TASKS,
        scopes="queue:pending-list:<taskQueueId>",
        query=PAGING,
        output=ListPendingTasksResponse,
        stability="experimental",
        raw_slash=True,
    ),
    Endpoint(
        name="listClaimedTasks",
        method="GET",
        route="/task-queues/<taskQueueId>/claimed",
        handler=list_claimed_tasks,
        title="List claimed Tasks",
        description="Lists the running runs of a task queue, a page at a time, first claimed first.",
        category=_TASKS,
        scopes="queue:claimed-list:<taskQueueId>",
        query=PAGING,
        output=ListClaimedTasksResponse,
        stability="experimental",
        raw_slash=True,
    ),
)
