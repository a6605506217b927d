"""A claim: the right to run a task until takenUntil, renewed for as long as the run takes (contract 5).

Between two renewals the worker looks from time to time whether the run still is its own, so that a task that was
cancelled does not go on for many minutes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from worker.queue import REFUSED, TROUBLE, Json, Queue, insist

log = logging.getLogger("worker")

MARGIN = timedelta(minutes=3)
"""The longest time before takenUntil at which a claim is renewed: time for retries, and for clocks that differ."""


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

    @property
    def queue(self) -> Queue:
        """A client with the latest credentials of the claim: the older ones expire."""
        return self._queue

    @property
    def credentials(self) -> Mapping[str, str]:
        """The latest credentials of the claim. The task uses them, and the worker for artifacts and reports."""
        return self._credentials

    def hawk_ext(self, scopes: Sequence[str]) -> str:
        """The `ext` of calls that are signed with these credentials for some scopes alone."""
        ext: dict[str, Any] = {"authorizedScopes": scopes}
        if certificate := self._credentials.get("certificate"):
            ext["certificate"] = json.loads(certificate)
        return base64.b64encode(json.dumps(ext).encode()).decode()

    async def keep(self) -> str:
        """Renews the claim again and again. Returns only when the run is not this worker's any more, and says why."""
        deadline = _moment(self.definition["deadline"])
        while True:
            due = min(renewal_due(self._taken_until, _now()), deadline)
            if (ended := await self._watch_until(due)) is not None:
                return ended
            if _now() >= deadline:
                return "the deadline has passed"
            try:
                async with asyncio.timeout((self._taken_until - _now()).total_seconds()):
                    self._renewed(await insist(lambda: self._queue.reclaimTask(self.task_id, self.run_id)))
            except TimeoutError:
                return "it could not be renewed in time"
            except REFUSED as refused:
                return f"the queue does not renew it ({refused.status_code})"
            log.info("%s: renewed until %s", self, self._taken_until)

    async def _watch_until(self, due: datetime) -> str | None:
        """Waits until `due`. Returns earlier, with the reason, if the run is found not to be this worker's any more."""
        while self._watching is not None and due - _now() > self._watch:
            await _sleep_until(_now() + self._watch)
            try:
                runs = (await self._watching.status(self.task_id))["status"]["runs"]
            except TROUBLE:
                continue
            except REFUSED as refused:
                log.info("%s: only renewals show when it ends: status is refused (%s)", self, refused.status_code)
                self._watching = None
                break
            if (run := runs[self.run_id])["state"] != "running":
                return f"it is {run['state']} ({run.get('reasonResolved')})"
        await _sleep_until(due)
        return None

    def _renewed(self, answer: Json) -> None:
        self._taken_until = _moment(answer["takenUntil"])
        self._credentials: Mapping[str, str] = answer["credentials"]
        self._queue = self._connect(self._credentials)


def renewal_due(taken_until: datetime, now: datetime) -> datetime:
    """When a claim is to be renewed: some minutes before its end, or after two thirds of what is left of it."""
    return taken_until - min(MARGIN, (taken_until - now) / 3)


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def _sleep_until(moment: datetime) -> None:
    await asyncio.sleep(max(0, (moment - _now()).total_seconds()))
