"""Endpoints on task queues, and on what is pending and running in them (contract 2.1, 8, 9)."""

from __future__ import annotations

from typing import Annotated, Any

from shared.api.endpoint import Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import page_of, place_of
from shared.base.dates import format_date
from shared.queue.pools import models
from shared.queue.pools.directory import DESCRIBED, DirectoryEntry, DirectoryKind
from shared.queue.pools.index import Counts
from shared.queue.pools.states import CurrentTaskQueue, Stall
from shared.queue.services import QueueServices
from shared.queue.tasks.rows import Loaded
from shared.queue.tasks.rules import ids_of

ENDPOINTS = Endpoints[QueueServices]("Tasks")


@ENDPOINTS(
    "listTaskQueues",
    "GET /task-queues",
    "Get a list of all active task queues",
    category="Worker Metadata",
    scopes="queue:list-task-queues",
)
async def list_task_queues(services: QueueServices, call: Call) -> Annotated[Json, models.ListTaskQueuesResponse]:
    """Lists the task queues that are in use, a page at a time, in the order of taskQueueId."""
    page = await services.directory.directory_page(DirectoryKind.TASK_QUEUE, **place_of(call.query))
    return page_of("taskQueues", page, _task_queue)


@ENDPOINTS(
    "getTaskQueue",
    "GET /task-queues/<taskQueueId>",
    "Get a task queue",
    category="Worker Metadata",
    scopes="queue:get-task-queue:<taskQueueId>",
)
async def get_task_queue(services: QueueServices, call: Call) -> Annotated[Json, models.TaskQueueResponse]:
    """Returns a task queue: when it expires, and when a worker last asked for its work."""
    return _task_queue(await services.directory.find_listed(DirectoryKind.TASK_QUEUE, call.params["taskQueueId"]))


@ENDPOINTS(
    "pendingTasks",
    "GET /pending/<taskQueueId>",
    "Get Number of Pending Tasks",
    scopes="queue:pending-count:<taskQueueId>",
    stability="deprecated",
    raw_slash=True,
)
async def pending_tasks(services: QueueServices, call: Call) -> Annotated[Json, models.PendingTasksResponse]:
    """Returns how many runs are pending in a task queue. Runs that were canceled or are past their deadline do not
    count."""
    task_queue_id = call.params["taskQueueId"]
    return {**ids_of(task_queue_id), "pendingTasks": await services.pool_views.pending_count(task_queue_id)}


@ENDPOINTS(
    "taskQueueCounts",
    "GET /task-queues/<taskQueueId>/counts",
    "Get Number of Pending and Claimed Tasks",
    scopes=all_of("queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"),
    raw_slash=True,
)
async def task_queue_counts(services: QueueServices, call: Call) -> Annotated[Json, models.TaskQueueCountsResponse]:
    """Returns how many runs of a task queue are pending, and how many are running."""
    task_queue_id = call.params["taskQueueId"]
    return _counts(task_queue_id, await services.pool_views.counts(task_queue_id))


@ENDPOINTS(
    "listTaskQueueStates",
    "GET /task-queue-states",
    "List Task Queues with Their Counts",
    scopes="queue:list-task-queue-states",
    stability="experimental",
)
async def list_task_queue_states(
    services: QueueServices, call: Call
) -> Annotated[Json, models.ListTaskQueueStatesResponse]:
    """Lists the task queues that are in use or hold a task, also those that no worker has ever asked, each with its
    counts and the time since which its oldest pending run waits; at most 100 a page. A page may be short while there
    are more. Not part of the public API."""
    page = await services.task_queue_states.state_page(**place_of(call.query))
    return page_of("taskQueues", page, _state)


@ENDPOINTS(
    "taskQueueCountsBatch",
    "POST /task-queues/counts",
    "Get Pending and Claimed Task Counts for Multiple Task Queues",
    scopes=all_of(
        for_each("taskQueueId", "taskQueueIds", "queue:pending-count:<taskQueueId>"),
        for_each("taskQueueId", "taskQueueIds", "queue:claimed-count:<taskQueueId>"),
    ),
    input=models.TaskQueueCountsRequest,
    stability="experimental",
)
async def task_queue_counts_batch(
    services: QueueServices, call: Call
) -> Annotated[Json, models.TaskQueueCountsListResponse]:
    """As taskQueueCounts, for up to a thousand task queues. The caller needs the scopes for every one of them."""
    task_queue_ids = call.payload(models.TaskQueueCountsRequest).taskQueueIds
    await call.authorise({"taskQueueIds": task_queue_ids})
    found = await services.pool_views.counts_of_many(task_queue_ids)
    return {"taskQueueCounts": [_counts(task_queue_id, counts) for task_queue_id, counts in found]}


@ENDPOINTS(
    "taskQueueLoad",
    "GET /task-queues/<taskQueueId>/load",
    "Get the Number of Unresolved Tasks",
    scopes=all_of("queue:pending-count:<taskQueueId>", "queue:claimed-count:<taskQueueId>"),
    stability="experimental",
    raw_slash=True,
)
async def task_queue_load(services: QueueServices, call: Call) -> Annotated[Json, models.TaskQueueLoadResponse]:
    """As taskQueueCounts, with the sum of both counts: the number by which workers are scaled. A scaler that subtracts
    the workers that are running starts one for each run that waits. Also the workers that wait, as far as the process
    that answers knows: those in claimWork, and those with unexpired URLs of pollTaskUrls; and `stalled` where tasks
    wait and nothing takes them."""
    task_queue_id = call.params["taskQueueId"]
    counts, stall = await services.pool_views.load(task_queue_id)
    return {
        "taskQueueId": task_queue_id,
        "pendingTasks": counts.pending,
        "claimedTasks": counts.claimed,
        "unresolvedTasks": counts.pending + counts.claimed,
        "waitingWorkers": services.waiting_workers.of_task_queue(task_queue_id),
        **_stalled(stall),
    }


@ENDPOINTS(
    "listPendingTasks",
    "GET /task-queues/<taskQueueId>/pending",
    "List Pending Tasks",
    scopes="queue:pending-list:<taskQueueId>",
    stability="experimental",
    raw_slash=True,
)
async def list_pending_tasks(services: QueueServices, call: Call) -> Annotated[Json, models.ListPendingTasksResponse]:
    """Lists the pending runs of a task queue, a page at a time, first scheduled first."""
    page = await services.pool_views.pending(call.params["taskQueueId"], **place_of(call.query))
    return page_of("tasks", page, _pending)


@ENDPOINTS(
    "listClaimedTasks",
    "GET /task-queues/<taskQueueId>/claimed",
    "List claimed Tasks",
    scopes="queue:claimed-list:<taskQueueId>",
    stability="experimental",
    raw_slash=True,
)
async def list_claimed_tasks(services: QueueServices, call: Call) -> Annotated[Json, models.ListClaimedTasksResponse]:
    """Lists the running runs of a task queue, a page at a time, first claimed first."""
    page = await services.pool_views.claimed(call.params["taskQueueId"], **place_of(call.query))
    return page_of("tasks", page, _claimed)


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
    return {"taskQueueId": entry.name, **DESCRIBED.encode(entry)}


def _counts(task_queue_id: str, counts: Counts) -> dict[str, Any]:
    return {**ids_of(task_queue_id), "pendingTasks": counts.pending, "claimedTasks": counts.claimed}


def _pending(listed: Loaded) -> dict[str, Any]:
    return {**_run_json(listed), "inserted": format_date(listed.task.last_run.scheduled)}


def _claimed(listed: Loaded) -> dict[str, Any]:
    run = listed.task.last_run
    claimed = format_date(run.started or run.scheduled)
    return {**_run_json(listed), "workerGroup": run.worker_group, "workerId": run.worker_id, "claimed": claimed}


def _run_json(listed: Loaded) -> dict[str, Any]:
    return {"taskId": listed.task.task_id, "runId": listed.task.last_run_id, "task": listed.body}
