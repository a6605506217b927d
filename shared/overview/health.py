"""Health: whether storage and Service Bus respond, and a verdict on the whole deployment (contract 2.5).

A process knows nothing of the others, so the verdict is read from storage: a bounded number of small requests, shared
by all who ask at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from shared.auth.clients.ending import EndingCredentials, RefusedCredentials
from shared.auth.clients.rows import Refusal
from shared.base import bounds, remembered
from shared.base.concurrency import in_waves
from shared.base.dates import format_date
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.protocol import ROWS_COMPLETE_AFTER
from shared.queue.pools.states import TaskQueueStates
from shared.queue.tasks.internal_messages import (
    CLAIM_QUEUE,
    DEADLINE_QUEUE,
    EVENTS_QUEUE,
    GROUP_QUEUE,
    INTERNAL_QUEUES,
    RESOLVED_QUEUE,
)
from shared.queue.tasks.messages import poison_queue
from shared.store import keys
from shared.store.expiring import ExpiryStore
from shared.store.interface import Queues, Storage, StorageUnavailable

log = logging.getLogger("taskcluster.heartbeat")

Ask = Callable[[], Awaitable[object]]
"""Asks one service something small. Raises when it does not answer."""

HEARTBEAT_SECONDS = 3.0
"""How long each service may take to answer."""


class Heartbeat:
    """Asks every service at once whether it responds. Concurrent callers share the answer."""

    def __init__(self, asks: Mapping[str, Ask], now: Callable[[], datetime]) -> None:
        """Takes for each service, by its name, the function that asks it."""
        self._asks = asks
        self._found: Memo[str, list[str]] = Memo(remembered.SILENT, now)

    async def silent(self) -> list[str]:
        """Returns the names of the services that do not answer in time."""
        return await self._found.read("", self._ask_all)

    async def _ask_all(self) -> list[str]:
        answers = await asyncio.gather(*(self._answers(name, ask) for name, ask in self._asks.items()))
        return [name for name, answered in zip(self._asks, answers, strict=True) if not answered]

    async def _answers(self, name: str, ask: Ask) -> bool:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await ask()
        except Exception as error:
            log.warning("%s does not answer: %s", name, type(error).__name__, extra={"action": "no_heartbeat"})
            return False
        return True


def asks_of(storage: Storage) -> dict[str, Ask]:
    """Returns a small request for each part of the storage account, by the name of the part."""
    return {
        "tables": lambda: storage.tables.get_row(keys.TASKS, "heartbeat", "heartbeat"),
        "queues": lambda: storage.queues.peek(CLAIM_QUEUE),
        "blobs": lambda: storage.blobs.properties(keys.PRIVATE, "heartbeat"),
    }


LIMIT_SECONDS = 5.0
"""Time limit in seconds for all questions to storage together."""
WAITS = timedelta(minutes=1)
"""How long a message may be visible without a function receiving it before it counts as late."""
JOB_LATE = timedelta(hours=2)
"""How far the expiry job may lag behind the latest hour that it could have finished. It runs every ten minutes, and
needs several runs when much expires at once."""
BACKLOG = 100
"""Number of unsent events that counts as normal: single sends fail now and then, and are retried."""

_TIMED = (CLAIM_QUEUE, DEADLINE_QUEUE, RESOLVED_QUEUE, GROUP_QUEUE)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something that is wrong, and what to do about it."""

    code: str
    """Stable when the wording changes."""
    severity: Literal["warning", "critical"]
    message: str
    remedy: str
    command: str = ""
    """The command with which an operator does it, if one does."""


@dataclass(eq=False)
class Health:
    """Looks for what an operator should know of."""

    _heartbeat: Heartbeat
    _queues: Queues
    _expiry: ExpiryStore
    _ending: EndingCredentials
    _refused: RefusedCredentials
    _states: TaskQueueStates
    _now: Callable[[], datetime]
    _fronts: dict[str, tuple[object, datetime]] = field(default_factory=dict)
    """The message at the front of each queue with how often it was received, and when it was first seen like that."""

    def __post_init__(self) -> None:
        self._kept: Memo[str, Sequence[Finding]] = Memo(remembered.FINDINGS, self._now)

    async def outage(self) -> Sequence[Finding]:
        """Returns a finding for each silent service if tables are among them, else none. Reads nothing from tables."""
        silent = await self._heartbeat.silent()
        return [_silence(service) for service in silent] if "tables" in silent else []

    async def findings(self) -> Sequence[Finding]:
        """Returns what is wrong, critical findings first; nothing when all is well."""
        return await self._kept.read("", self._collect_findings)

    async def _collect_findings(self) -> Sequence[Finding]:
        silent = await self._heartbeat.silent()
        found = [_silence(service) for service in silent]
        if {"tables", "queues"}.isdisjoint(silent):
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    found += await self._stored()
            except (StorageUnavailable, TimeoutError):
                found.append(_SLOW)
        return sorted(found, key=lambda finding: (finding.severity, finding.code))

    async def _stored(self) -> list[Finding]:
        looks = [self._poisoned, self._backlog, self._job, self._stalled, self._refusals]
        looks += [partial(self._late, queue) for queue in _TIMED]
        looks += [partial(self._credentials, has_ended) for has_ended in (True, False)]
        found = await in_waves(bounds.BACKGROUND, lambda look: look(), looks)
        return [finding for finding in found if finding is not None]

    async def _poisoned(self) -> Finding | None:
        counts = await in_waves(
            bounds.BACKGROUND, lambda queue: self._queues.length(poison_queue(queue)), INTERNAL_QUEUES
        )
        queues = [queue for queue, count in zip(INTERNAL_QUEUES, counts, strict=True) if count]
        if not queues:
            return None
        return Finding(
            code="poison-messages",
            severity="critical",
            message=f"{_counted(sum(counts), 'internal message')} could not be handled and were dead-lettered, "
            f"in the queues of {', '.join(queues)}.",
            remedy="Read the error of each in the logs, then send them again.",
            command=f"./dev admin queue poison redrive {queues[0]}",
        )

    async def _backlog(self) -> Finding | None:
        events = await self._queues.length(EVENTS_QUEUE)
        if events < BACKLOG:
            return None
        return Finding(
            code="event-backlog",
            severity="warning",
            message=f"About {_counted(events, 'event')} wait for Service Bus; calls are not affected.",
            remedy="Check the health and the throttling of the Service Bus namespace; the backlog drains by itself.",
        )

    async def _job(self) -> Finding | None:
        hour = await self._expiry.cursor()
        behind = timedelta() if hour is None else self._now() - (hour + _HOUR + ROWS_COMPLETE_AFTER)
        if behind < JOB_LATE:
            return None
        return Finding(
            code="expiry-late",
            severity="warning",
            message=f"The expiry job is {behind // _HOUR} hours late: nothing that has expired is deleted.",
            remedy="Check in the logs that the timer function expire runs, and with what it fails.",
        )

    async def _credentials(self, has_ended: bool) -> Finding | None:
        found = [each for each in await self._ending.current() if each.has_ended == has_ended]
        if not found:
            return None
        named = _named([f"{each.client_id} ({format_date(each.expires)})" for each in found])
        what = "have ended, and what uses them is refused" if has_ended else "end soon"
        return Finding(
            code="credentials-ended" if has_ended else "credentials-end",
            severity="critical" if has_ended else "warning",
            message=f"Clients {what}: {named}.",
            remedy="Prolong each, with its token. Disable or delete one that nobody needs.",
            command="taskcluster api auth updateClient CLIENT_ID, ./dev admin worker-client renew TASK_QUEUE_ID",
        )

    async def _refusals(self) -> Finding | None:
        """Returns a finding that names the clients that are refused, except those that have expired, which are a
        finding of their own."""
        ended = {each.client_id for each in await self._ending.current() if each.has_ended}
        refused = [(name, each) for name, each in (await self._refused.current()).items() if name not in ended]
        if not refused:
            return None
        named = _named([f"{name} ({_WHY[each.why]}, last {format_date(each.last)})" for name, each in refused])
        return Finding(
            code="credentials-refused",
            severity="warning",
            message=f"Clients are refused, again and again: {named}.",
            remedy="Stop what uses them, or give it a token that works. If nobody uses them, somebody may be trying "
            "tokens.",
            command="taskcluster api auth resetAccessToken CLIENT_ID, "
            "./dev admin worker-client rotate TASK_QUEUE_ID --key-vault VAULT",
        )

    async def _stalled(self) -> Finding | None:
        stalls = await self._states.stalls()
        if not stalls:
            return None
        named = _named([stall.brief for stall in stalls])
        return Finding(
            code="task-queues-stalled",
            severity="warning",
            message=stalls[0].message
            if len(stalls) == 1
            else f"No worker takes the tasks of {len(stalls)} task queues: {named}.",
            remedy="Start workers, release one from quarantine, or cancel what should not run.",
            command=f"./dev admin queue show {stalls[0].task_queue_id}",
        )

    async def _late(self, queue: str) -> Finding | None:
        """Returns a finding if the message at the front of a queue was there a minute ago, not received since."""
        front = [(each.receipt.message_id, each.dequeue_count) for each in await self._queues.peek(queue)]
        now = self._now()
        if front != self._fronts.setdefault(queue, (front, now))[0]:
            self._fronts[queue] = front, now
        since = self._fronts[queue][1]
        if not front or now - since < WAITS:
            return None
        waits = _counted((now - since) // _MINUTE, "minute")
        return Finding(
            code=f"{queue}-late",
            severity="critical",
            message=f"A message of the queue {queue} has been due for {waits} without being handled: claims, deadlines "
            "or dependents are late.",
            remedy="Check in the logs that the functions with queue triggers run, and that they are not throttled.",
        )


_WHY: Mapping[Refusal, str] = {
    "disabled": "disabled",
    "ended": "ended",
    "token": "its old token",
    "unreadable": "its token is encrypted with a key that is not there",
}
_NAMED = 3
"""The most clients, or task queues, that a message names."""
_MINUTE = timedelta(minutes=1)
_SLOW = Finding(
    code="storage-slow",
    severity="critical",
    message="Storage does not answer in time.",
    remedy="Check the storage account's availability and throttling (Azure Monitor, Transactions by response type).",
)


def _silence(service: str) -> Finding:
    is_bus = service == "Service Bus"
    return Finding(
        code=f"{service.lower().replace(' ', '-')}-silent",
        severity="warning" if is_bus else "critical",
        message=f"{service if is_bus else f'Storage ({service})'} does not answer"
        f"{': events wait, calls are not affected' if is_bus else ''}.",
        remedy="Check its health in Azure, its network rules, and the role assignments of the app's identity.",
    )


def _named(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are."""
    others = f" and {_counted(len(names) - _NAMED, 'other')}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + others


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
