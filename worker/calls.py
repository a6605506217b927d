"""What a task's process may have the worker do with the credentials of the claim: it has none itself.

It gets what the credentials are for, and never the credentials: URLs that are signed for one artifact, signatures of
single calls.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import mohawk
import mohawk.bewit
import taskcluster.aio
from taskcluster.exceptions import TaskclusterFailure, TaskclusterRestFailure

from worker.claim import Claim
from worker.messages import Message, Refused
from worker.queue import TROUBLE
from worker.text import lines, shown

BEWIT_SECONDS = 3600
STORAGE_TYPES = frozenset({"azure", "error", "link", "s3"})


class Calls:
    """The calls for one run."""

    def __init__(self, claim: Claim, root_url: str, session: aiohttp.ClientSession) -> None:
        self._claim = claim
        self._root_url = root_url.rstrip("/")
        self._session = session
        payload = claim.definition["payload"]
        features = payload.get("features") if isinstance(payload, dict) else None
        self._is_proxied = isinstance(features, dict) and features.get("taskclusterProxy") is True
        own = f"queue:create-artifact:{claim.task_id}/{claim.run_id}"
        self._authorized = [*claim.definition.get("scopes", ()), own]

    async def answer(self, message: Message) -> Message:
        """What to answer to a message with an `id`. Raises LookupError, TypeError for one that is none."""
        calls: dict[str, Callable[..., Awaitable[Any]]] = {
            "create": self._create,
            "content": self._content,
            "sign": self._sign,
            "bewit": self._bewit,
        }
        do = calls[message["do"]]
        what = {name: value for name, value in message.items() if name not in ("do", "id")}
        try:
            return {"done": await do(**what)}
        except Refused as refused:
            return {"refused": [refused.status, str(refused)]}
        except TaskclusterRestFailure as refused:
            return {"refused": [refused.status_code, "\n".join(lines(str(refused)))]}
        except TROUBLE as trouble:
            return {"unreached": shown(trouble)}
        except (TaskclusterFailure, ValueError) as refused:
            return {"refused": [HTTPStatus.BAD_REQUEST, shown(refused)]}

    async def _create(self, name: str, request: Message) -> Any:
        """createArtifact."""
        if request["storageType"] not in STORAGE_TYPES:
            raise Refused(HTTPStatus.BAD_REQUEST, "no artifact of this type")
        claim = self._claim
        return await claim.queue.createArtifact(claim.task_id, claim.run_id, name, request)

    async def _content(self, artifact: str, taskId: str = "", namespace: str = "") -> str:  # noqa: N803 - as on the wire
        """The URL of an artifact, of a task or of the one that the index has."""
        options = {"rootUrl": self._root_url, "credentials": dict(self._claim.credentials)}
        if not taskId:
            index = taskcluster.aio.Index(options, session=self._session)
            taskId = (await index.findTask(namespace))["taskId"]  # noqa: N806
        found = await self._claim.queue.latestArtifact(taskId, artifact)
        if found["storageType"] == "error":
            raise Refused(HTTPStatus.FAILED_DEPENDENCY, f"it is missing: {found['message']}")
        if found["storageType"] == "object":
            objects = taskcluster.aio.Object({**options, "credentials": found["credentials"]}, session=self._session)
            found = await objects.startDownload(found["name"], {"acceptDownloadMethods": {"getUrl": True}})
        return str(found["url"])

    async def _sign(self, method: str, url: str, contentType: str) -> str:  # noqa: N803
        """The header Authorization of a call to the deployment."""
        sender = mohawk.Sender(
            **self._signing(url, "/api/"), method=method, content_type=contentType, always_hash_content=False
        )
        return str(sender.request_header)

    async def _bewit(self, url: str) -> str:
        """A URL of the deployment, signed for an hour."""
        until = int(time.time()) + BEWIT_SECONDS
        resource = mohawk.base.Resource(**self._signing(url, "/"), method="GET", timestamp=until, nonce="")
        bewit = mohawk.bewit.get_bewit(resource).rstrip("=")
        return f"{url}{'&' if urlsplit(url).query else '?'}bewit={bewit}"

    def _signing(self, url: str, beginning: str) -> dict[str, Any]:
        """What to sign with, as taskcluster-proxy does: the task's scopes, and that of its own artifacts."""
        if not self._is_proxied:
            raise Refused(HTTPStatus.FORBIDDEN, "the task has not asked for features.taskclusterProxy")
        if not url.startswith(self._root_url + beginning):
            raise Refused(HTTPStatus.BAD_REQUEST, f"the URL must be one of {self._root_url}")
        credentials = self._claim.credentials
        key = {"id": credentials["clientId"], "key": credentials["accessToken"], "algorithm": "sha256"}
        return {"credentials": key, "url": url, "ext": self._claim.hawk_ext(self._authorized)}
