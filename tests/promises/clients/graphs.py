"""A decision task of the sample project, with the public graph generator as its payload."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import requests
import taskcluster

from shared.base.ids import new_slugid
from tests.promises.clients.deployment import Credentials, Deployment, a_task, format_time
from tests.promises.host.service import eventually

PROJECT = Path(__file__).with_name("sample_project")
EXECUTABLE = Path(sys.executable).with_name("taskgraph")
REPOSITORY = "https://github.com/example/sample"
SCHEDULER = "sample-level-1"
WORKER = {"workerGroup": "g", "workerId": "w"}


@dataclass(frozen=True)
class Graph:
    """A checkout of the sample project whose tasks go to a provisioner of its own, and its decision task."""

    deployment: Deployment
    folder: Path
    provisioner: str
    task_id: str
    """Id of the decision task, and of the group."""

    @classmethod
    def decided(cls, deployment: Deployment, folder: Path, *, reuses_builds: bool = False) -> Graph:
        """Runs the decision task to its end as a worker does: with nothing but what the claim gives."""
        graph = cls(deployment, folder, f"sample-{uuid.uuid4().hex[:20]}", new_slugid())
        graph._check_out()
        if reuses_builds:
            kind = folder / "taskcluster" / "kinds" / "build" / "kind.yml"
            kind.write_text(kind.read_text().replace("task-defaults:\n", "task-defaults:\n  reused: true\n"))
        return graph._decide()

    def decided_again(self) -> Graph:
        """Runs another decision task in the same checkout, with a graph of its own."""
        return Graph(self.deployment, self.folder, self.provisioner, new_slugid())._decide()

    def _decide(self) -> Graph:
        claim = self.claim_new(self.task_id, "decision", self._decision())
        self.taskgraph(*self._decision_arguments(), claim=claim)
        self.upload(claim, {f"public/{path.name}": path.read_bytes() for path in self.artifacts.iterdir()})
        self.client(claim["credentials"]).reportCompleted(self.task_id, claim["runId"])
        return self

    @property
    def artifacts(self) -> Path:
        """Folder of what the decision task wrote."""
        return self.folder / "artifacts"

    @cached_property
    def queue(self) -> Any:
        """The public client as root."""
        return self.client(self.deployment.root)

    @cached_property
    def worker(self) -> Any:
        """The public client as a worker has it, which repeats a call that is answered 5xx."""
        return taskcluster.Queue({**self.deployment.options(self.deployment.root), "maxRetries": 5})

    @cached_property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns the created tasks by their labels: ids, dependencies and definitions."""
        written = json.loads((self.artifacts / "task-graph.json").read_text())
        return {task["label"]: {**task, "taskId": task_id} for task_id, task in written.items()}

    def ids(self, *labels: str) -> list[str]:
        return [self.tasks[label]["taskId"] for label in labels]

    def client(self, credentials: Credentials) -> Any:
        """Returns the public client with these credentials."""
        return taskcluster.Queue(self.deployment.options(credentials))

    def claim(self, worker_type: str, count: int) -> list[dict[str, Any]]:
        """Claims `count` tasks, which are there or will be soon."""
        claims: list[dict[str, Any]] = []

        def all_of_them() -> list[dict[str, Any]] | None:
            # A call that waits when a task comes is told to call again, by 503 or empty (contract 5.1).
            request = {**WORKER, "tasks": count - len(claims)}
            claims.extend(self.worker.claimWork(f"{self.provisioner}/{worker_type}", request)["tasks"])
            return claims if len(claims) == count else None

        return eventually(all_of_them, timeout=60)

    def claim_new(self, task_id: str, worker_type: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Creates and claims a task of this group, and returns the claim."""
        pool = f"{self.provisioner}/{worker_type}"
        task = a_task(pool, taskGroupId=self.task_id, schedulerId=SCHEDULER, **changes)
        self.queue.createTask(task_id, task)
        (claim,) = self.claim(worker_type, 1)
        return claim

    def upload(self, claim: Mapping[str, Any], contents: Mapping[str, bytes]) -> None:
        """Uploads artifacts of a claimed run, with the credentials of its claim."""
        worker = self.client(claim["credentials"])
        for name, content in contents.items():
            request = {
                "storageType": "s3",
                "contentType": "application/octet-stream",
                "contentLength": len(content),
                "expires": format_time(timedelta(minutes=30)),
            }
            answer = worker.createArtifact(claim["status"]["taskId"], claim["runId"], name, request)
            put = requests.put(
                answer["putUrl"], content, headers={"content-type": "application/octet-stream"}, timeout=30
            )
            assert put.ok, put.text

    def taskgraph(
        self, *arguments: str, claim: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
    ) -> str:
        """Runs the command line in the checkout, in the environment of a claimed task; returns its output."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TASK", "GIT_"))}
        chosen = {"TASKCLUSTER_ROOT_URL": self.deployment.root_url, **(environment or {})}
        if claim is not None:
            credentials = claim["credentials"]
            chosen |= {
                "TASK_ID": claim["status"]["taskId"],
                "RUN_ID": str(claim["runId"]),
                "TASKCLUSTER_CLIENT_ID": credentials["clientId"],
                "TASKCLUSTER_ACCESS_TOKEN": credentials["accessToken"],
                "TASKCLUSTER_CERTIFICATE": credentials["certificate"],
            }
        done = subprocess.run(
            [EXECUTABLE, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=self.folder,
            env={**inherited, **chosen},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _decision(self) -> dict[str, Any]:
        """Returns a definition of a decision task with the rights that it needs, and no more."""
        return {
            "scopes": [
                f"queue:create-task:low:{self.provisioner}/*",
                "queue:create-task:project:none",
                f"queue:scheduler-id:{SCHEDULER}",
                "queue:route:checks",
                "index:insert-task:sample.v2.sample.*",
                f"queue:route:index.sample.cache.{self.provisioner}.*",
                f"index:find-task:sample.cache.{self.provisioner}.*",
                "queue:status:*",
            ]
        }

    def _decision_arguments(self) -> Sequence[str]:
        base, head = (self._git("rev-parse", revision) for revision in ("HEAD~", "HEAD"))
        values = {
            "project": "sample",
            "pushlog-id": "0",
            "pushdate": "0",
            "owner": "nobody@example.com",
            "level": "1",
            "repository-type": "git",
            "base-repository": REPOSITORY,
            "base-rev": base,
            "head-repository": REPOSITORY,
            "head-ref": "main",
            "head-rev": head,
            "tasks-for": "github-push",
        }
        return ["decision", *(f"--{name}={value}" for name, value in values.items())]

    def _check_out(self) -> None:
        """Makes a repository of two commits, the second of which changes no documentation."""
        shutil.copytree(PROJECT, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        config = self.folder / "taskcluster" / "config.yml"
        config.write_text(config.read_text().replace("provisioner: sample", f"provisioner: {self.provisioner}"))
        self._git("init", "-q", "-b", "main")
        for message in ("Begin", "Change the sources"):
            (self.folder / "sources.txt").write_text(message)
            self._git("add", ".")
            self._git("-c", "user.name=a test", "-c", "user.email=nobody@example.com", "commit", "-q", "-m", message)

    def _git(self, *arguments: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=True, cwd=self.folder, env=inherited
        )
        return done.stdout.strip()
