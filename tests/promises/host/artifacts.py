"""A run whose worker uploads, and a reader that follows its redirections."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import requests
from taskcluster.download import downloadArtifactToBuf

from tests.promises.host.service import Service, eventually, in_future

TIMEOUT = 60
DAY = 86_400
TEXT = b"what the worker has written\n" * 100
PACKED = gzip.compress(TEXT, mtime=0)


@dataclass
class Run:
    """Run 0 of a task of its own, which is running."""

    service: Service
    claim: Mapping[str, Any]
    expires: str

    @classmethod
    def of(cls, service: Service, **changes: Any) -> Run:
        """Creates and claims a task, which expires in two days."""
        expires = in_future(2 * DAY)
        return cls(service, service.claimed(expires=expires, **changes), expires)

    @property
    def task_id(self) -> str:
        return str(self.claim["status"]["taskId"])

    @cached_property
    def worker(self) -> Any:
        """The public client with the task's credentials."""
        return self.service.worker(self.claim)

    def announced(self) -> list[Any]:
        """Returns the artifacts that subscribers have heard of, once there is one."""
        return eventually(
            lambda: [event for event in self.service.events.of(self.task_id) if event.topic == "artifact-created"]
        )

    def create(self, name: str, storage_type: str, **fields: Any) -> dict[str, Any]:
        """Calls createArtifact; None leaves a property out."""
        request = {"storageType": storage_type, "expires": self.expires, **fields}
        if storage_type not in {"link", "error"}:
            request.setdefault("contentType", "text/plain")
        present = {key: value for key, value in request.items() if value is not None}
        answer: dict[str, Any] = self.worker.createArtifact(self.task_id, 0, name, present)
        return answer

    def refer(self, name: str, url: str = "https://example.com/elsewhere") -> None:
        """Creates a `reference`."""
        self.create(name, "reference", url=url)

    def link(self, name: str, target: str, **fields: Any) -> None:
        """Creates a `link`."""
        self.create(name, "link", artifact=target, **fields)

    def fail(self, name: str) -> None:
        """Creates an `error`."""
        self.create(name, "error", reason="file-missing-on-worker", message="there is no such file")

    def upload(
        self, name: str, data: bytes, content_type: str = "text/plain", *, encoding: str = "", direct: bool = False
    ) -> int:
        """Creates an `s3` artifact, and sends its content by a bare PUT as workers do; returns the status of the PUT.
        The length that they state is that of the content before it is encoded."""
        length = {"contentLength": len(gzip.decompress(data) if encoding else data)} if direct else {}
        url = self.create(name, "s3", contentType=content_type, **length)["putUrl"]
        return self.put(url, data, content_type, encoding).status_code

    def put(self, url: str, data: Any, content_type: str = "text/plain", encoding: str = "") -> requests.Response:
        """Sends a bare PUT, with no header but those that workers send."""
        headers = {"Content-Type": content_type, **({"Content-Encoding": encoding} if encoding else {})}
        return requests.put(url, data=data, headers=headers, timeout=TIMEOUT)

    def complete(self) -> None:
        """Calls reportCompleted."""
        self.worker.reportCompleted(self.task_id, 0)

    def url_of(self, name: str) -> str:
        """Returns getArtifact's URL, as the client hands it out."""
        return str(self.service.queue.getArtifact(self.task_id, 0, name)["url"])

    def fetch(self, name: str, **headers: str) -> requests.Response:
        """Fetches the content as a browser does."""
        return requests.get(self.url_of(name), headers=headers, timeout=TIMEOUT)

    def download(self, name: str) -> bytes:
        """Returns the content by the public client's helper."""
        content, _ = downloadArtifactToBuf(taskId=self.task_id, runId=0, name=name, queueService=self.service.queue)
        return bytes(content)

    def raw(self, name: str) -> bytes:
        """Returns the bytes as they are stored, encoded or not."""
        with requests.get(self.url_of(name), stream=True, timeout=TIMEOUT) as answer:
            answer.raise_for_status()
            return bytes(answer.raw.read(decode_content=False))

    def info(self, name: str) -> dict[str, Any]:
        """Calls artifactInfo."""
        found: dict[str, Any] = self.service.queue.artifactInfo(self.task_id, 0, name)
        return found
