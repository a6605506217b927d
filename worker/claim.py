"""A claim: the right to run a task until takenUntil, renewed for as long as the run takes (contract 5); and what the
task's process, which has no credentials itself, may have the worker do with those of the claim.

Between two renewals the worker looks from time to time whether the run still is its own, so that a task that was
cancelled does not go on for many minutes. The process gets what the credentials are for, and never the credentials:
URLs that are signed for one artifact, signatures of single calls.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import mohawk
import mohawk.bewit
from taskcluster.aio import Index, Object, Queue
from taskcluster.exceptions import TaskclusterFailure, TaskclusterRestFailure

from worker.messages import Message
from worker.queue import REFUSED, TROUBLE, Json, insist
from worker.text import lines, shown

log = logging.getLogger("worker")

MARGIN = timedelta(minutes=3)
"""The longest time before takenUntil at which a claim is renewed: time for retries, and for clocks that differ."""
BEWIT_SECONDS = 3600
STORAGE_TYPES = {"azure", "error", "link", "s3"}


class Claim:
    """A run that this worker holds."""

    def __init__(
        self,
        claimed: Json,
        connect: Callable[[Mapping[str, str]], Queue],
        *,
        watching: Queue | None = None,
        watch_seconds: float = 60.0,
    ) -> None:
        """`claimed` is one element of claimWork's answer; `connect` makes a client from credentials.

        `watching` reads the run's state every `watch_seconds`; a claim's credentials may not suffice for that. Without
        it, or its scope queue:status:<taskId>, only renewals show that the run has ended.
        """
        self.definition: Json = claimed["task"]
        self.task_id: str = claimed["status"]["taskId"]
        self.run_id: int = claimed["runId"]
        self._connect = connect
        self._watching = watching
        self._watch = timedelta(seconds=watch_seconds)
        self._renewed(claimed)

    def __str__(self) -> str:
        return f"{self.task_id}/{self.run_id}"

    def _renewed(self, answer: Json) -> None:
        self._taken_until = datetime.fromisoformat(answer["takenUntil"])
        self.credentials: Mapping[str, str] = answer["credentials"]
        """The latest ones: the older ones expire."""
        self.queue = self._connect(self.credentials)
        """A client with them."""

    async def keep(self) -> str:
        """Renews the claim again and again. Returns only when the run is not this worker's any more, and says why."""
        deadline = datetime.fromisoformat(self.definition["deadline"])
        while True:
            due = min(renewal_due(self._taken_until, _now()), deadline)
            if (ended := await self._watch_until(due)) is not None:
                return ended
            if _now() >= deadline:
                return "the deadline has passed"
            try:
                async with asyncio.timeout((self._taken_until - _now()).total_seconds()):
                    self._renewed(await insist(lambda: self.queue.reclaimTask(self.task_id, self.run_id)))
            except TimeoutError:
                return "it could not be renewed in time"
            except REFUSED as refused:
                return f"the queue does not renew it ({refused.status_code})"
            log.info("%s: renewed until %s", self, self._taken_until)

    async def _watch_until(self, due: datetime) -> str | None:
        """Waits until `due`. Returns earlier, with the reason, if the run is found not to be this worker's any more."""
        while self._watching is not None and due - _now() > self._watch:
            await asyncio.sleep(self._watch.total_seconds())
            try:
                run = (await self._watching.status(self.task_id))["status"]["runs"][self.run_id]
            except TROUBLE:
                continue
            except REFUSED as refused:
                log.info("%s: only renewals show when it ends: status is refused (%s)", self, refused.status_code)
                self._watching = None
            else:
                if run["state"] != "running":
                    return f"it is {run['state']} ({run.get('reasonResolved')})"
        await asyncio.sleep(max(0, (due - _now()).total_seconds()))
        return None


def renewal_due(taken_until: datetime, now: datetime) -> datetime:
    """When a claim is to be renewed: some minutes before its end, or after two thirds of what is left of it."""
    return taken_until - min(MARGIN, (taken_until - now) / 3)


def _now() -> datetime:
    return datetime.now(UTC)


class Calls:
    """The calls for one run."""

    def __init__(self, claim: Claim, root_url: str, session: aiohttp.ClientSession) -> None:
        self._claim = claim
        self._root_url = root_url.rstrip("/")
        self._session = session

    async def answer(self, message: Message) -> Message:
        """What to answer to a message with an `id`. Raises LookupError, TypeError for one that is none."""
        calls: dict[str, Callable[..., Awaitable[Any]]] = {
            "create": self._create,
            "content": self._content,
            "sign": self._sign,
            "bewit": self._bewit,
        }
        do = calls[message["do"]]
        try:
            return {"done": await do(**{name: each for name, each in message.items() if name not in ("do", "id")})}
        except TaskclusterRestFailure as refused:
            return {"refused": [refused.status_code, "\n".join(lines(str(refused)))]}
        except TROUBLE as trouble:
            return {"unreached": shown(trouble)}
        except (TaskclusterFailure, ValueError) as refused:
            return {"refused": [HTTPStatus.BAD_REQUEST, shown(refused)]}

    async def _create(self, name: str, request: Message) -> Any:
        """createArtifact."""
        if request["storageType"] not in STORAGE_TYPES:
            raise ValueError("no artifact of this type")
        return await self._claim.queue.createArtifact(self._claim.task_id, self._claim.run_id, name, request)

    async def _content(self, artifact: str, taskId: str = "", namespace: str = "") -> str:  # noqa: N803 - as on the wire
        """The URL of an artifact, of a task or of the one that the index has."""
        options = {"rootUrl": self._root_url, "credentials": dict(self._claim.credentials)}
        if not taskId:
            taskId = (await Index(options, session=self._session).findTask(namespace))["taskId"]  # noqa: N806
        found = await self._claim.queue.latestArtifact(taskId, artifact)
        if found["storageType"] == "error":
            raise ValueError(f"it is missing: {found['message']}")
        if found["storageType"] == "object":
            objects = Object({**options, "credentials": found["credentials"]}, session=self._session)
            found = await objects.startDownload(found["name"], {"acceptDownloadMethods": {"getUrl": True}})
        return str(found["url"])

    async def _sign(self, method: str, url: str, contentType: str) -> str:  # noqa: N803
        """The header Authorization of a call to the deployment."""
        signing = self._signing(url, "/api/")
        sender = mohawk.Sender(**signing, method=method, content_type=contentType, always_hash_content=False)
        return str(sender.request_header)

    async def _bewit(self, url: str) -> str:
        """A URL of the deployment, signed for an hour."""
        until = int(time.time()) + BEWIT_SECONDS
        resource = mohawk.base.Resource(**self._signing(url, "/"), method="GET", timestamp=until, nonce="")
        bewit = mohawk.bewit.get_bewit(resource).rstrip("=")
        return f"{url}{'&' if urlsplit(url).query else '?'}bewit={bewit}"

    def _signing(self, url: str, beginning: str) -> dict[str, Any]:
        """What to sign with, as taskcluster-proxy does: the task's scopes, and that of its own artifacts."""
        claim, credentials = self._claim, self._claim.credentials
        match claim.definition["payload"]:
            case {"features": {"taskclusterProxy": True}}:
                pass
            case _:
                raise ValueError("the task has not asked for features.taskclusterProxy")
        if not url.startswith(self._root_url + beginning):
            raise ValueError(f"the URL must be one of {self._root_url}")
        ext: Json = {"authorizedScopes": [*claim.definition.get("scopes", ()), f"queue:create-artifact:{claim}"]}
        if certificate := credentials.get("certificate"):
            ext["certificate"] = json.loads(certificate)
        key = {"id": credentials["clientId"], "key": credentials["accessToken"], "algorithm": "sha256"}
        return {"credentials": key, "url": url, "ext": base64.b64encode(json.dumps(ext).encode()).decode()}
