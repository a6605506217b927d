"""An operator at a running stack, with the public clients beside the commands."""

from __future__ import annotations

import base64
import datetime
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import taskcluster

from tests.promises.admin.command_line import run_command
from tools.local.stack import Stack

OLD_KEY = base64.urlsafe_b64encode(b"an old secret that the vault has").decode()


class Operator:
    """Somebody with a shell, the root client and the storage account."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("TASKCLUSTER_", "AZURE"))
        }
        self.environment = {**inherited, **stack.environment}
        self.folder = folder
        root = {
            "clientId": stack.environment["TASKCLUSTER_CLIENT_ID"],
            "accessToken": stack.environment["TASKCLUSTER_ACCESS_TOKEN"],
        }
        self._options = {"rootUrl": stack.environment["TASKCLUSTER_ROOT_URL"], "credentials": root}
        self.pool = f"admin/p{uuid.uuid4().hex[:12]}"

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """Runs a command; returns exit code, output and messages."""
        return run_command(arguments, {**self.environment, **(environment or {})})

    def result(self, *arguments: str) -> Any:
        code, output, messages = self.run(*arguments)
        assert code == 0, messages
        return json.loads(output)

    def queue(self) -> Any:
        """Returns the public client."""
        return taskcluster.Queue(self._options)

    def create(self, **changes: Any) -> str:
        task_id: str = taskcluster.slugId()
        now = datetime.datetime.now(datetime.UTC)
        self.queue().createTask(
            task_id,
            {
                "taskQueueId": self.pool,
                "created": now.isoformat(),
                "deadline": (now + datetime.timedelta(hours=1)).isoformat(),
                "payload": {},
                "metadata": {
                    "name": "a",
                    "description": "b",
                    "owner": "c@example.com",
                    "source": "https://example.com",
                },
                **changes,
            },
        )
        return task_id

    def quarantine(self, worker_id: str, reason: str, span: str) -> None:
        """Quarantines a worker as `taskcluster api queue quarantineWorker` does."""
        wanted = {"quarantineUntil": taskcluster.fromNow(span).isoformat(), "quarantineInfo": reason}
        self.queue().quarantineWorker(*self.pool.split("/"), "g", worker_id, wanted)

    def auth(self) -> Any:
        """Returns the public client of clients and roles."""
        return taskcluster.Auth(self._options)

    def create_client(self, client_id: str) -> None:
        """Creates a client as `taskcluster api auth createClient` does."""
        wanted = {"description": "", "expires": taskcluster.fromNow("1 hour").isoformat(), "scopes": []}
        self.auth().createClient(client_id, wanted)

    def claim(self) -> Any:
        return self.queue().claimWork(self.pool, {"workerGroup": "g", "workerId": "w", "tasks": 1})["tasks"]
