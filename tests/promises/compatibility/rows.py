"""Every endpoint that Taskcluster's Queue and Index have had, as the contract lists them (contract 2.1, 18.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

INDEX = "index."
"""Prefix of the index's endpoints here, as both services have a ping."""


@dataclass(frozen=True)
class Row:
    """A row of the contract's table. `eras`: N today, P only in the newest client, O in 2019, D in drafts of 2015, E
    in 2014 and 2015 and gone by 2016, A only here."""

    name: str
    route: str
    """Method and route below /api/queue/v1, or /api/index/v1."""
    eras: str
    note: str = ""
    """Remark on how support differs from a plain yes."""
    is_supported: bool = True
    endpoint: str = ""
    """Name of the endpoint that serves the row, if it has another one by now."""
    number: int = 0

    @property
    def service(self) -> str:
        """The service that has the endpoint."""
        return "index" if self.name.startswith(INDEX) else "queue"

    @property
    def served_by(self) -> str:
        """The name by which the row is served, with that of its service if that is not the queue."""
        return self.endpoint or self.name

    @property
    def support(self) -> str:
        return f"{'yes' if self.is_supported else 'no'}{f': {self.note}' if self.note else ''}"


_WORKER = "/provisioners/<provisionerId>/worker-types/<workerType>/workers/<workerGroup>/<workerId>"
_BOTH = "`<taskQueueId>` as one parameter or as `<provisionerId>/<workerType>`"

_ROWS = (
    Row("ping", "GET /ping", "NO"),
    Row("lbheartbeat", "GET /__lbheartbeat__", "N"),
    Row("version", "GET /__version__", "N"),
    Row("heartbeat", "GET /__heartbeat__", "N"),
    Row("task", "GET /task/<taskId>", "NO"),
    Row("tasks", "POST /tasks", "N"),
    Row("statuses", "POST /tasks/status", "N"),
    Row("status", "GET /task/<taskId>/status", "NO"),
    Row("listTaskGroup", "GET /task-group/<taskGroupId>/list", "NO"),
    Row("getTaskGroup", "GET /task-group/<taskGroupId>", "N"),
    Row("sealTaskGroup", "POST /task-group/<taskGroupId>/seal", "N"),
    Row("cancelTaskGroup", "POST /task-group/<taskGroupId>/cancel", "N"),
    Row("changeTaskGroupPriority", "POST /task-group/<taskGroupId>/priority", "N"),
    Row("listDependentTasks", "GET /task/<taskId>/dependents", "NO"),
    Row("createTask", "PUT /task/<taskId>", "NO"),
    Row("scheduleTask", "POST /task/<taskId>/schedule", "NO"),
    Row("rerunTask", "POST /task/<taskId>/rerun", "NO"),
    Row("cancelTask", "POST /task/<taskId>/cancel", "NO"),
    Row("changeTaskPriority", "POST /task/<taskId>/priority", "N"),
    Row("claimWork", "POST /claim-work/<taskQueueId>", "NOD", _BOTH),
    Row("claimTask", "POST /task/<taskId>/runs/<runId>/claim", "NOD"),
    Row("reclaimTask", "POST /task/<taskId>/runs/<runId>/reclaim", "NO"),
    Row("reportCompleted", "POST /task/<taskId>/runs/<runId>/completed", "NO"),
    Row("reportFailed", "POST /task/<taskId>/runs/<runId>/failed", "NO"),
    Row("reportException", "POST /task/<taskId>/runs/<runId>/exception", "NO"),
    Row("createArtifact", "POST /task/<taskId>/runs/<runId>/artifacts/<name>", "NO"),
    Row("finishArtifact", "PUT /task/<taskId>/runs/<runId>/artifacts/<name>", "N"),
    Row("completeArtifact", "PUT /task/<taskId>/runs/<runId>/artifacts/<name>", "O", endpoint="finishArtifact"),
    Row("getArtifact", "GET /task/<taskId>/runs/<runId>/artifacts/<name>", "NO"),
    Row("getLatestArtifact", "GET /task/<taskId>/artifacts/<name>", "NO"),
    Row("listArtifacts", "GET /task/<taskId>/runs/<runId>/artifacts", "NO"),
    Row("listLatestArtifacts", "GET /task/<taskId>/artifacts", "NO"),
    Row("artifactInfo", "GET /task/<taskId>/runs/<runId>/artifact-info/<name>", "N"),
    Row("latestArtifactInfo", "GET /task/<taskId>/artifact-info/<name>", "N"),
    Row("artifact", "GET /task/<taskId>/runs/<runId>/artifact-content/<name>", "N"),
    Row("latestArtifact", "GET /task/<taskId>/artifact-content/<name>", "N"),
    Row("listProvisioners", "GET /provisioners", "NO"),
    Row("getProvisioner", "GET /provisioners/<provisionerId>", "NO"),
    Row("declareProvisioner", "PUT /provisioners/<provisionerId>", "O"),
    Row("pendingTasks", "GET /pending/<taskQueueId>", "NO", _BOTH),
    Row("taskQueueCounts", "GET /task-queues/<taskQueueId>/counts", "N"),
    Row("taskQueueCountsBatch", "POST /task-queues/counts", "P"),
    Row("listPendingTasks", "GET /task-queues/<taskQueueId>/pending", "N"),
    Row("listClaimedTasks", "GET /task-queues/<taskQueueId>/claimed", "N"),
    Row("listTaskQueues", "GET /task-queues", "N"),
    Row("getTaskQueue", "GET /task-queues/<taskQueueId>", "N"),
    Row("listWorkerTypes", "GET /provisioners/<provisionerId>/worker-types", "NO"),
    Row("getWorkerType", "GET /provisioners/<provisionerId>/worker-types/<workerType>", "NO"),
    Row("declareWorkerType", "PUT /provisioners/<provisionerId>/worker-types/<workerType>", "O"),
    Row("listWorkers", "GET /provisioners/<provisionerId>/worker-types/<workerType>/workers", "NO"),
    Row("getWorker", f"GET {_WORKER}", "NO"),
    Row("quarantineWorker", f"PUT {_WORKER}", "NO"),
    Row(
        "declareWorker",
        "PUT /provisioners/<provisionerId>/worker-types/<workerType>/<workerGroup>/<workerId>",
        "NO",
    ),
    Row("defineTask", "POST /task/<taskId>/define", "O"),
    Row("pollTaskUrls", "GET /poll-task-url/<provisionerId>/<workerType>", "OD"),
    Row(
        "pollTaskUrl",
        "GET /poll-task-url/<provisionerId>/<workerType>",
        "D",
        "the route answers in the form that followed two days later, pollTaskUrls",
        is_supported=False,
    ),
    Row(
        "accessTasks",
        "GET /access-tasks/<provisionerId>/<workerType>",
        "D",
        "a draft of four days; pollTaskUrls does what it did",
        is_supported=False,
    ),
    Row(
        "claimWork with xmlMessage",
        "POST /claim-work/<provisionerId>/<workerType>",
        "D",
        "with today's answer",
        endpoint="claimWork",
    ),
    Row("createTask by POST", "POST /task/new", "E", "createTask takes an id of the caller's", is_supported=False),
    Row(
        "defineTasks", "GET /define-tasks", "E", "defineTask takes an id and a task of the caller's", is_supported=False
    ),
    Row("claimTask without a run", "POST /task/<taskId>/claim", "E", "claimTask names the run", is_supported=False),
    Row(
        "reportTaskCompleted",
        "POST /task/<taskId>/completed",
        "E",
        "reportCompleted and reportFailed name the run",
        is_supported=False,
    ),
    Row("requestArtifactUrls", "POST /task/<taskId>/artifact-urls", "E", "createArtifact does it", is_supported=False),
    Row(
        "getPendingTasks",
        "GET /pending-tasks/<provisionerId>",
        "E",
        "listPendingTasks does it for a task queue",
        is_supported=False,
    ),
    Row(
        "pendingTaskCount", "GET /pending/<provisionerId>", "E", "pendingTasks counts a task queue", is_supported=False
    ),
    Row(
        "getAMQPConnectionString",
        "GET /settings/amqp-connection-string",
        "E",
        "events are read from Service Bus, with credentials of its own",
        is_supported=False,
    ),
    Row("workerRemoved", f"POST {_WORKER}/removed", "A", "not of Taskcluster: reports that a worker is gone"),
    Row("health", "GET /health", "A", "not of Taskcluster: what is wrong with the deployment"),
    Row("listTaskGroups", "GET /task-groups", "A", "not of Taskcluster: the task groups that were created last"),
    Row("listTaskQueueStates", "GET /task-queue-states", "A", "not of Taskcluster: all task queues with their counts"),
    Row(
        "taskQueueLoad",
        "GET /task-queues/<taskQueueId>/load",
        "A",
        "not of Taskcluster: the number by which workers are scaled",
    ),
    Row("taskAuditHistory", "GET /task/<taskId>/audit", "A", "not of Taskcluster: who did what to a task"),
    Row(
        "taskGroupAuditHistory",
        "GET /task-group/<taskGroupId>/audit",
        "A",
        "not of Taskcluster: who did what to a group and its tasks",
    ),
    Row("workerAuditHistory", f"GET {_WORKER}/audit", "A", "not of Taskcluster: who quarantined a worker"),
    Row("operations", "GET /operations", "A", "not of Taskcluster: what operators look at"),
    Row(
        "listPoisonMessages", "GET /poison-messages/<queueName>", "A", "not of Taskcluster: messages that were given up"
    ),
    Row(
        "redrivePoisonMessages",
        "POST /poison-messages/<queueName>/redrive",
        "A",
        "not of Taskcluster: handles them again",
    ),
    Row("deletePoisonMessages", "POST /poison-messages/<queueName>/delete", "A", "not of Taskcluster: drops them"),
)
_INDEX_ROWS = (
    Row("index.ping", "GET /ping", "NO"),
    Row("index.lbheartbeat", "GET /__lbheartbeat__", "N"),
    Row("index.version", "GET /__version__", "N"),
    Row("index.heartbeat", "GET /__heartbeat__", "N"),
    Row("index.findTask", "GET /task/<indexPath>", "NO", "with scopes, which it needs since 2020"),
    Row("index.findTasksAtIndex", "POST /tasks/indexes", "N"),
    Row(
        "index.listNamespaces",
        "GET /namespaces/<namespace>",
        "NO",
        "with scopes, which it needs since 2020; at the top also `GET /namespaces`",
    ),
    Row(
        "index.listNamespacesPost",
        "POST /namespaces/<namespace>",
        "NO",
        "the first page, as today; in 2019 the body could ask for others",
    ),
    Row(
        "index.listTasks",
        "GET /tasks/<namespace>",
        "NO",
        "with scopes, which it needs since 2020; at the top also `GET /tasks`",
    ),
    Row(
        "index.listTasksPost",
        "POST /tasks/<namespace>",
        "NO",
        "the first page, as today; in 2019 the body could ask for others",
    ),
    Row("index.insertTask", "PUT /task/<namespace>", "NO"),
    Row("index.deleteTask", "DELETE /task/<namespace>", "N"),
    Row("index.findArtifactFromTask", "GET /task/<indexPath>/artifacts/<name>", "NO"),
    Row("index.health", "GET /health", "A", "not of Taskcluster: as that of the queue"),
)
QUEUE_ROWS = tuple(replace(row, number=number) for number, row in enumerate(_ROWS, start=1))
INDEX_ROWS = tuple(replace(row, number=number) for number, row in enumerate(_INDEX_ROWS, start=1))
ROWS = QUEUE_ROWS + INDEX_ROWS
BY_NAME = {row.name: row for row in ROWS}
