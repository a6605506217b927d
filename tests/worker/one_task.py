"""A queue that has one task for a worker, for tests of the worker as a process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUIET = {"features": {"liveLog": False, "backingLog": False}}
TASK_ID = "aaaaaaaaQaCaaaaaaaaaaA"


@dataclass
class OneTask:
    """What is claimed once, and what the worker has said of it."""

    payload: dict[str, Any]
    scopes: list[str] = field(default_factory=list)
    url: str = ""
    reported: list[str] = field(default_factory=list)
    _is_claimed: bool = False

    def answer(self, path: str) -> dict[str, Any]:
        """The answer to a POST."""
        if "/claim-work/" not in path:
            if not path.endswith("/reclaim"):
                self.reported.append(path.rpartition("/")[2])
            return {}
        if self._is_claimed:
            return {"tasks": []}
        self._is_claimed = True
        later = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
        definition = {
            "payload": {**QUIET, **self.payload},
            "scopes": self.scopes,
            "taskGroupId": TASK_ID,
            "deadline": later,
            "expires": later,
        }
        credentials = {"clientId": "task", "accessToken": "token-of-the-claim"}
        claimed = {"status": {"taskId": TASK_ID}, "runId": 0, "task": definition, "takenUntil": later}
        return {"tasks": [{**claimed, "credentials": credentials}]}


@contextmanager
def queue_of(payload: dict[str, Any], *scopes: str) -> Iterator[OneTask]:
    """A queue on loopback with a task of this payload."""
    task = OneTask(payload, list(scopes))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            content = json.dumps(task.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        task.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield task
        finally:
            server.shutdown()
            thread.join()
