"""Task groups for tests of the console: created, claimed and resolved with the public client, as people's are."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import requests
import taskcluster

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Deployment, a_task, format_time

LOG = "public/logs/live.log"
RELAYED_AT_MOST = 2**20
"""Bytes: the relay takes no more unless a setting says so. What states its length goes past it."""
WORKER_GROUP = "here"


@dataclass(frozen=True)
class Scene:
    """A group whose tasks go to a task queue of its own."""

    deployment: Deployment
    task_queue: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:12]}/linux")
    group: str = field(default_factory=new_slugid)
    source: str = "https://example.com/repository"
    """Groups of the same source are compared with each other."""
    ids: dict[str, str] = field(default_factory=dict)
    """taskIds by name."""
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Claims that are not resolved yet, by the task's name."""

    def client(self, credentials: Any = None) -> Any:
        """Returns the public client, as root or with these credentials."""
        options = self.deployment.options(credentials or self.deployment.root)
        return taskcluster.Queue({**options, "maxRetries": 3})

    def create(
        self, name: str, needs: Sequence[str] = (), task_id: str | None = None, description: str = "", **changes: Any
    ) -> str:
        """Creates a task; `needs` are names of tasks that were created before."""
        self.ids[name] = task_id or new_slugid()
        metadata = {
            "name": name,
            "description": description or f"Runs {name}",
            "owner": "me@example.com",
            "source": self.source,
        }
        definition = a_task(
            self.task_queue,
            schedulerId="tests",
            taskGroupId=self.group,
            dependencies=[self.ids[one] for one in needs],
            metadata=metadata,
        )
        self.client().createTask(self.ids[name], {**definition, **changes})
        return self.ids[name]

    def claim(self, *names: str, worker: str = "worker-1") -> None:
        """Claims pending tasks of the task queue until those with these names are among them."""
        while not set(names) <= set(self.claims):
            request = {"workerGroup": WORKER_GROUP, "workerId": worker, "tasks": 4}
            for claim in self.client().claimWork(self.task_queue, request)["tasks"]:
                self.claims[claim["task"]["metadata"]["name"]] = claim

    def upload(self, name: str, artifact: str, content: bytes, content_type: str = "text/plain; charset=utf-8") -> str:
        """Uploads an artifact of a claimed task as its worker does; returns the URL that it was sent to."""
        stated = {"contentLength": len(content)} if len(content) > RELAYED_AT_MOST else {}
        url = self._create_artifact(name, artifact, "s3", content_type, **stated)
        put(url, content, content_type)
        return url

    def begin_blob(self, name: str, artifact: str, content_type: str = "text/plain; charset=utf-8") -> str:
        """Returns the URL of the blob of an artifact of a claimed task, which its worker writes by blocks."""
        return self._create_artifact(name, artifact, "azure", content_type)

    def complete(self, *names: str) -> None:
        """Reports success of claimed tasks."""
        for name in names:
            self._report(name, "reportCompleted")

    def fail(self, *names: str) -> None:
        """Reports failure of claimed tasks."""
        for name in names:
            self._report(name, "reportFailed")

    def run(self, *names: str) -> None:
        """Claims tasks, and reports their success."""
        self.claim(*names)
        self.complete(*names)

    def many(self, state: str, count: int) -> dict[str, Any]:
        """Returns what listTaskGroup would answer for the first task in a state and copies of it, from `zz-000`."""
        answer = self.client().listTaskGroup(self.group)
        one = next(each for each in answer["tasks"] if each["status"]["state"] == state)
        tasks = [one]
        for number in range(count):
            task = {**one["task"], "metadata": {**one["task"]["metadata"], "name": f"zz-{number:03}"}}
            tasks.append({"task": task, "status": {**one["status"], "taskId": f"{number:021}A"}})
        return {**answer, "tasks": tasks}

    def _create_artifact(self, name: str, artifact: str, storage_type: str, content_type: str, **stated: int) -> str:
        claim = self.claims[name]
        made = self.client(claim["credentials"]).createArtifact(
            claim["status"]["taskId"],
            claim["runId"],
            artifact,
            {
                "storageType": storage_type,
                "contentType": content_type,
                "expires": format_time(timedelta(minutes=50)),
                **stated,
            },
        )
        return str(made["putUrl"])

    def _report(self, name: str, method: str) -> None:
        claim = self.claims.pop(name)
        getattr(self.client(claim["credentials"]), method)(claim["status"]["taskId"], claim["runId"])


REVISIONS = ("4f2a9c1d7b3e8a60f5d2c9b17e4a3f6d8c0b5e21", "0b5e214f2a9c1d7b3e8a60f5d2c9b17e4a3f6d8c")
SHERIFF, JANE, JOE = "sheriff@example.com", "jane@example.com", "joe@example.com"


def lately(deployment: Deployment) -> dict[str, Scene]:
    """Returns groups for the home page: a push with a decision task, one without, no push, three of one task."""
    made = {name: Scene(deployment) for name in ("autoland", "widgets", "tools", "cron-0", "cron-1", "cron-2")}

    def create(of: str, task: str, owner: str, source: str, project: str = "none", **changes: Any) -> None:
        metadata = {"name": task, "description": f"Runs {task}", "owner": owner, "source": source}
        made[of].create(task, metadata=metadata, projectId=project, **changes)

    for name in ("cron-0", "cron-1", "cron-2"):
        create(name, "nightly", JOE, "https://example.com/cron")
    autoland = f"https://hg.example.com/integration/autoland/file/{REVISIONS[0]}/.taskcluster.yml"
    create("autoland", "Decision Task", SHERIFF, autoland, "autoland", task_id=made["autoland"].group)
    create("autoland", "build", SHERIFF, autoland, "autoland")
    made["autoland"].run("Decision Task", "build")
    for task in ("lint", "unit"):
        create("widgets", task, JANE, f"https://github.com/example/widgets/commit/{REVISIONS[1]}", "widgets")
    made["widgets"].claim("lint", "unit")
    made["widgets"].fail("lint")
    for task in ("sweep", "report"):
        create("tools", task, JOE, "https://example.com/tools")
    return made


def put(url: str, content: bytes, content_type: str = "text/plain; charset=utf-8", encoding: str = "") -> None:
    """Writes the content of an artifact, or writes it anew."""
    headers = {"content-type": content_type, "x-ms-blob-type": "BlockBlob", "x-ms-blob-content-type": content_type}
    if encoding:
        headers["x-ms-blob-content-encoding"] = encoding
    requests.put(url, data=content, headers=headers, timeout=60).raise_for_status()


def lines(count: int = 300, errors: Sequence[int] = (58, 212)) -> bytes:
    """Returns a log with colours; errors at these lines, counted from 1."""
    written = [
        f"\x1b[31mstep {number} error: it broke\x1b[0m"
        if number in errors
        else f"\x1b[32m[info]\x1b[0m step {number} <b>of many</b>"
        for number in range(1, count + 1)
    ]
    return "\n".join(written).encode() + b"\n"
