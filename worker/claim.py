"""A claim: the right to run a task until takenUntil, renewed for as long as the run takes (contract 5); and signatures
with its credentials, for the processes that work on the task, which have none.

Between two renewals the worker looks from time to time whether the run still is its own, so that a task that was
cancelled does not go on for many minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import mohawk
import mohawk.bewit
from taskcluster.aio import Queue

from worker.context import REFUSED, TROUBLE, Json, insist
from worker.options import Options
from worker.text import log, shown

MARGIN = timedelta(minutes=3)
"""The longest time before takenUntil at which a claim is renewed: time for retries, and for clocks that differ. A short
one is renewed after two thirds of what is left of it."""
BEWIT_SECONDS = 3600


class Claim:
    """A run that this worker holds."""

    def __init__(self, claimed: Json, connect: Callable[[Mapping[str, str]], Queue], options: Options) -> None:
        """`claimed` is one element of claimWork's answer; `connect` makes a client from credentials. Those of the
        worker read the run's state: a claim's may not suffice. If neither does, only renewals show when it ends."""
        self.definition: Json = claimed["task"]
        self.task_id: str = claimed["status"]["taskId"]
        self.run_id: int = claimed["runId"]
        self._run = (self.task_id, self.run_id)
        self._connect = connect
        self._root_url = options.root_url.rstrip("/")
        api, run = re.escape(f"{self._root_url}/api/"), f"queue/v1/task/{self.task_id}/runs/{self.run_id}/artifacts"
        read = "(queue/v1/task/[^/?]+/artifact-content|index/v1/task)"
        self._own = re.compile(f"POST {api}{run}/[^/?]+|GET {api}{read}/[^/?]+")
        """The calls that the processes make themselves, also of a task that has not asked for a proxy."""
        self._watching = connect(options.credentials)
        self._watch_seconds = options.watch_seconds
        self._renewed(claimed)

    def __str__(self) -> str:
        return f"{self.task_id}/{self.run_id}"

    def _renewed(self, answer: Json) -> None:
        self._taken_until, now = datetime.fromisoformat(answer["takenUntil"]), _now()
        self._due = self._taken_until - min(MARGIN, (self._taken_until - now) / 3)
        self._credentials: Mapping[str, str] = answer["credentials"]
        self.queue = self._connect(self._credentials)
        """A client with the latest credentials: the older ones expire."""

    @property
    def seconds_left(self) -> float:
        """Seconds for which the claim, and its credentials, are still valid."""
        return max(0.0, (self._taken_until - _now()).total_seconds())

    async def keep(self) -> str:
        """Renews the claim again and again. Returns only when the run is not this worker's any more, and says why."""
        deadline = datetime.fromisoformat(self.definition["deadline"])
        while (now := _now()) < deadline:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((min(self._due, deadline) - now).total_seconds()):
                    return await self._watch()
            if self._due < deadline:
                try:
                    async with asyncio.timeout(self.seconds_left):
                        self._renewed(await insist("renewing", lambda: self.queue.reclaimTask(*self._run)))
                except TimeoutError:
                    return "it could not be renewed in time"
                except REFUSED as refused:
                    return f"the queue does not renew it ({refused.status_code})"
                log.info("%s: renewed until %s", self, self._taken_until)
        return "the deadline has passed"

    async def _watch(self) -> str:
        """Looks again and again whether the run still is this worker's; why it is not."""
        while True:
            await asyncio.sleep(self._watch_seconds)
            try:
                run = (await self._watching.status(self.task_id))["status"]["runs"][self.run_id]
            except (*TROUBLE, LookupError):
                continue
            except REFUSED as refused:
                log.info("%s: only renewals show when it ends: status is refused (%s)", self, refused.status_code)
                await asyncio.Event().wait()  # until the next one
            if run["state"] != "running":
                return f"it is {run['state']} ({run.get('reasonResolved')})"

    async def report(self, outcome: str) -> None:
        """Reports how the run has ended (contract 4.3)."""
        if outcome == "completed":
            await self.queue.reportCompleted(*self._run)
        elif outcome == "failed":
            await self.queue.reportFailed(*self._run)
        else:
            await self.queue.reportException(*self._run, {"reason": outcome})

    def answer(self, message: Json) -> Json:
        """Signs a call for a process, as taskcluster-proxy does: for the task's scopes and its artifacts."""
        try:
            match message:
                case {"do": "sign", "method": str(method), "url": str(url), "contentType": str(content_type)}:
                    what = {**self._signing(method, url, "/api/"), "method": method, "content_type": content_type}
                    return {"done": mohawk.Sender(**what, always_hash_content=False).request_header}
                case {"do": "bewit", "url": str(url)} if url.isprintable():
                    until = int(time.time()) + BEWIT_SECONDS
                    signing = self._signing("bewit", url, "/")
                    resource = mohawk.base.Resource(**signing, method="GET", timestamp=until, nonce="")
                    bewit = mohawk.bewit.get_bewit(resource).rstrip("=")
                    return {"done": f"{url}{'&' if urlsplit(url).query else '?'}bewit={bewit}"}
                case _:
                    raise ValueError("it asks for nothing that is known")
        except ValueError as refused:
            return {"refused": shown(refused)}

    def _signing(self, method: str, url: str, beginning: str) -> dict[str, Any]:
        """Returns what to sign a URL with. Raises ValueError for one that is not to be signed."""
        is_own = self._own.fullmatch(f"{method} {url}") is not None
        match self.definition["payload"]:
            case {"features": {"taskclusterProxy": True}} if url.startswith(self._root_url + beginning):
                pass
            case _ if not is_own:
                raise ValueError(f"it is no URL of {self._root_url}, or the task lacks features.taskclusterProxy")
        client: Json = {"rootUrl": self._root_url, "credentials": {**self._credentials}}
        if not is_own or method != "GET":  # the certificate has them, and a header of 4,096 characters no room for both
            scopes = () if is_own else self.definition.get("scopes", ())
            client["authorizedScopes"] = [*scopes, f"queue:create-artifact:{self}"]
        key = {"id": self._credentials["clientId"], "key": self._credentials["accessToken"], "algorithm": "sha256"}
        return {"credentials": key, "url": url, "ext": Queue(client).makeHawkExt().decode()}


def _now() -> datetime:
    return datetime.now(UTC)
