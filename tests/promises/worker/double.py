"""A queue and a storage for tests of the worker as a process: it has some tasks, and remembers what becomes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.parts.local.stacks import wait
from tools.local.state import ROOT

SECRET = "signature-of-a-url"
TOKEN = "token-of-the-workers-client"
LOG, BACKING = "public/logs/live.log", "public/logs/live_backing.log"
QUIET = {"features": {"liveLog": False, "backingLog": False}}
RIGHTS = "-all,+chown,+dac_override,+fowner,+kill,+setgid,+setuid"  # what engines of containers give, and it needs
SECONDS = 60


def shell(script: str, **more: Any) -> dict[str, Any]:
    """Returns a payload."""
    return {"command": ["sh", "-c", script], "maxRunTime": 60, **more}


@dataclass
class FakeQueue:
    """A queue that hands out each task once, in order, and keeps what the worker says of it."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    """Definitions that are to be claimed."""
    added: int = 0
    told: bool = False
    """Whether the worker was told that there is a task: it gets one when it calls again."""
    claim_seconds: float = 3600.0
    url: str = ""
    reports: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    begun: list[str] = field(default_factory=list)
    """Reports that have come, answered or not."""
    renewed: list[str] = field(default_factory=list)
    """Tasks whose claims were renewed."""
    taken_until: float = 0.0
    artifacts: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """What was asked for, by task and name."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    get: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    """What to do at GET of other paths."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """Reports, and last parts of names of artifacts, that are answered only when this event is set."""
    authorized: list[str] = field(default_factory=list)
    """Headers of calls of tasks, by the proxy."""
    refused: dict[str, int] = field(default_factory=dict)
    """Names of artifacts that are refused, with what status."""

    def add(self, payload: Any, *scopes: str, **more: Any) -> str:
        """Adds a task to be claimed; returns its id."""
        self.added += 1
        task_id = f"{self.added:07d}aQaCaaaaaaaaaaA"
        later = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
        definition = {"payload": payload, "scopes": list(scopes), "taskGroupId": task_id, "deadline": later}
        self.tasks.append({"id": task_id, **definition, "expires": later, **more})
        return task_id

    def log(self, task_id: str) -> str:
        """Returns what is in the log."""
        return self.blobs.get(f"/blob/{task_id}/{LOG}", b"").decode(errors="replace")

    def ended(self, task_id: str) -> str:
        """Returns how the task has ended, once it has."""
        wait(lambda: bool(self.reports[task_id]), SECONDS)
        return self.reports[task_id][-1]

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Returns the answer to a call of the queue."""
        words = [unquote(word) for word in path.split("/")]
        if "claim-work" in words:
            self.told = bool(self.tasks) and not self.told
            if self.told:
                return 503, {"code": "CallAgain", "message": "there is work\n\n---\n\n* errorCode:  CallAgain"}
            return 200, {"tasks": [self._claimed(self.tasks.pop(0))] if self.tasks else []}
        task_id = words[words.index("task") + 1]
        if words[-1] == "reclaim":
            is_late = time.monotonic() > self.taken_until
            self.renewed.append(task_id)
            return (409 if task_id in self.cancelled or is_late else 200), self._claim()
        if words[-2] == "artifacts":
            if words[-1] in self.refused:
                return self.refused[words[-1]], {"message": "it is refused"}
            self.artifacts[task_id, words[-1]] = body
            url = f"{self.url}/blob/{task_id}/{quote(words[-1])}?sig={SECRET}"
            later = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
            return 200, {"storageType": body["storageType"], "putUrl": url, "expires": later}
        report = body["reason"] if words[-1] == "exception" else words[-1]
        self.begun.append(report)
        if report in self.held:
            self.held[report].wait(SECONDS)
        self.reports[task_id].append(report)
        return 200, {}

    def _claim(self) -> dict[str, Any]:
        self.taken_until = time.monotonic() + self.claim_seconds
        until = (datetime.now(UTC) + timedelta(seconds=self.claim_seconds)).isoformat().replace("+00:00", "Z")
        return {"takenUntil": until, "credentials": {"clientId": "task", "accessToken": "token-of-the-claim"}}

    def _claimed(self, task: dict[str, Any]) -> dict[str, Any]:
        return {"status": {"taskId": task.pop("id")}, "runId": 0, "task": task, **self._claim()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    queue: FakeQueue
    blocks: dict[str, dict[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(*self.queue.post(self.path, json.loads(body or b"null")))

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        for beginning, do in self.queue.get.items():
            if path.startswith(beginning):
                return do(self)
        if path.endswith("/status"):
            task_id = path.split("/")[-2]
            state = {"state": "exception", "reasonResolved": "canceled"} if task_id in self.queue.cancelled else {}
            return self.answer(200, {"status": {"runs": [{"state": "running", **state}]}})
        self.queue.authorized.append(self.headers.get("Authorization", ""))
        return self.answer(200, {"alive": True})

    def do_PUT(self) -> None:
        url, body = urlsplit(self.path), self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query, path = parse_qs(url.query), unquote(url.path)
        if (event := self.queue.held.get(path.rpartition("/")[2])) is not None:
            event.wait(SECONDS)
        blocks = self.blocks.setdefault(path, {})
        if query.get("comp") == ["block"]:
            blocks[query["blockid"][0]] = body
        elif query.get("comp") == ["blocklist"]:
            listed = [each.partition("<")[0] for each in body.decode().split("<Latest>")[1:]]
            if not set(listed) <= blocks.keys():
                return self.answer(400, {})
            self.queue.blobs[path] = b"".join(blocks[each] for each in listed)
        else:
            self.queue.blobs[path] = body
        return self.answer(201, {})

    def answer(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def fake_queue(**more: Any) -> Iterator[FakeQueue]:
    """Yields a queue on loopback."""
    queue = FakeQueue(**more)
    handler = type("Handler", (_Handler,), {"queue": queue, "blocks": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        queue.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield queue
        finally:
            server.shutdown()
            thread.join()


class Working:
    """A worker as a process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        """Its own log."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def guard(self) -> int:
        """The process that it has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        wait(lambda: bool(children.read_text(encoding="utf-8")), SECONDS)
        return int(children.read_text(encoding="utf-8").split()[0])

    @property
    def peak(self) -> int:
        """Most bytes of memory that it has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) << 10

    def end(self) -> int:
        """Asks it to end; its exit code."""
        self.process.terminate()
        return self.process.wait(SECONDS)


@contextmanager
def working(queue: FakeQueue, folder: Path, *more: str, **variables: str) -> Iterator[Working]:
    """Yields a worker that waits in claimWork, whose work directory is `work` in the folder."""
    (folder / "work").mkdir(exist_ok=True, mode=0o711)
    arguments = ["--task-queue-id", "a/b", "--worker-group", "g", "--worker-id", "w", "--poll-mode", "claim-work"]
    arguments += ["--work-dir", str(folder / "work"), "--grace-seconds", "0.5", "--log-seconds", "0.3", *more]
    environment: Mapping[str, str] = {
        **{name: os.environ[name] for name in ("PATH", "COVERAGE_PROCESS_CONFIG") if name in os.environ},
        "TASKCLUSTER_ROOT_URL": queue.url,
        "TASKCLUSTER_CLIENT_ID": "me",
        "TASKCLUSTER_ACCESS_TOKEN": TOKEN,
        **variables,
    }
    with (folder / "worker.log").open("wb") as log:
        limited = ["setpriv", f"--bounding-set={RIGHTS}"] if "--task-user" in more else []
        command = [*limited, sys.executable, "-m", "worker", *arguments]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log)
    worker = Working(process, folder / "worker.log")
    try:
        yield worker
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
