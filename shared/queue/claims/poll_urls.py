"""pollTaskUrls: signed URLs with which workers poll the pending queues themselves (contract 15, design 4). Workers hand
in Azure's answers to a Get Messages request, in which nothing can be trusted. Idle workers are advised to come back
later and later. Waiting workers are counted, for autoscalers other than KEDA."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]  # it has no type hints

from shared.base import bounds, remembered
from shared.base.concurrency import together
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.memo import Memo
from shared.base.priority import PRIORITIES
from shared.base.protocol import SIGNED_URL_CLOCK_SKEW
from shared.queue.pools.rows import PoolStore
from shared.queue.tasks.messages import pending_queue
from shared.runtime import Runtime
from shared.store.interface import Access, Message, Receipt
from shared.store.limits import MAX_MESSAGES
from shared.telemetry.instruments import WAITING_WORKERS

LONGEST_ANSWER = 256 * 1024
"""Most characters of an answer; 32 messages take a quarter of them."""
_ID = re.compile(r"[0-9A-Fa-f-]{36}")
_RECEIPT = re.compile(r"[\x21-\x7e]{1,512}")


class MalformedAnswer(ServiceError, ValueError):
    """The text is not an answer of Azure."""


def parse_poll_answer(text: str, now: datetime) -> list[Message]:
    """Returns the messages of an answer, each once. Entities are not expanded, nor is anything loaded. A message
    without a usable id and receipt is left out; one without a time counts as inserted now. Raises MalformedAnswer."""
    if len(text) > LONGEST_ANSWER:
        raise MalformedAnswer(f"longer than {LONGEST_ANSWER} characters")
    try:
        root = fromstring(text.removeprefix("\ufeff").encode(), forbid_dtd=True)
    except (ParseError, ValueError, LookupError) as error:  # LookupError: it declares an unknown encoding
        raise MalformedAnswer("not XML, or with a document type") from error
    if root.tag != "QueueMessagesList":
        raise MalformedAnswer("not a QueueMessagesList")
    found = [message for element in root.findall("QueueMessage")[:MAX_MESSAGES] if (message := _message(element, now))]
    return list({message.receipt.message_id: message for message in found}.values())


def _message(element: Element, now: datetime) -> Message | None:
    message_id, pop_receipt = _text(element, "MessageId"), _text(element, "PopReceipt")
    if not _ID.fullmatch(message_id) or not _RECEIPT.fullmatch(pop_receipt):
        return None
    count = _text(element, "DequeueCount")
    return Message(
        receipt=Receipt(
            message_id=message_id, pop_receipt=pop_receipt, visible=_time(_text(element, "TimeNextVisible"), now)
        ),
        text=_text(element, "MessageText"),
        inserted=min(_time(_text(element, "InsertionTime"), now), now),
        dequeue_count=int(count) if re.fullmatch("[1-9][0-9]{0,5}", count) else 1,
    )


def _text(element: Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _time(text: str, now: datetime) -> datetime:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return now
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


LIFE = timedelta(minutes=30)
"""Life of the URLs. Their holder may poll until they end, even after its worker was quarantined."""


class PollUrls:
    """Hands out signed URLs for polling the queues of a pool, and counts them."""

    def __init__(self, access: Access, pools: PoolStore, runtime: Runtime, *, hidden_for: int) -> None:
        """Makes URLs that hide a polled message for `hidden_for` seconds."""
        self._access = access
        self._pools = pools
        self._now = runtime.now
        self._hidden_for = hidden_for
        self._given: Memo[str, deque[datetime]] = Memo(remembered.POLL_URLS)
        """By task queue: the expirations of the sets of URLs that this process has given out."""

    def waiting(self) -> Counter[str]:
        """Returns for each task queue how many sets of URLs have not expired, so that many workers may be polling."""
        now, found = self._now(), Counter[str]()
        for task_queue_id, expires in list(self._given.items()):
            while expires and expires[0] <= now:
                expires.popleft()
            if expires:
                found[task_queue_id] = len(expires)
            else:
                self._given.pop(task_queue_id)
        return found

    async def of_pool(self, task_queue_id: str) -> tuple[list[tuple[str, str]], datetime]:
        """Returns for each of the seven bands, the highest first, the URL at which its messages are polled and the one
        at which they are deleted, with placeholders; and when these URLs expire. Raises StorageUnavailable."""
        await self._pools.queues.ensure_queues(task_queue_id)
        now = self._now().replace(microsecond=0)
        expires = now + LIFE
        signed = await together(
            *(
                self._access.process_queue(
                    pending_queue(task_queue_id, band), start=now - SIGNED_URL_CLOCK_SKEW, expiry=expires
                )
                for band in PRIORITIES
            )
        )
        given = self._given.get(task_queue_id) or deque(maxlen=bounds.COUNTED_URLS)
        given.append(expires)
        self._given[task_queue_id] = given
        return [
            (
                f"{queue.url}/messages?visibilitytimeout={self._hidden_for}&{queue.sas}",
                f"{queue.url}/messages/{{{{messageId}}}}?popreceipt={{{{popReceipt}}}}&{queue.sas}",
            )
            for queue in signed
        ], expires


WINDOW = timedelta(seconds=10)
FREE = 20
"""Requests without work for a pool in one window that are free: no pause is advised."""
HIGHEST = 7
LONGEST = 2 ** (HIGHEST - 1)
"""The longest pause, in seconds, that is advised."""


@dataclass
class _Traffic:
    began: datetime
    count: int = 0
    level: int = 0


class BackOff:
    """Counts vain requests for each pool in this process, in windows of 10 s. The advised pause doubles after a window
    with more than FREE of them, and halves after one with at most half as many. It ends when there is work. A long poll
    has waited before it gets the advice."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._pools: Memo[str, _Traffic] = Memo(remembered.VAIN)

    def in_vain(self, task_queue_id: str) -> int:
        """Counts a request that found nothing, or only asked for URLs. Returns the advice in seconds, 0 for none."""
        now = self._now()
        traffic = self._pools.get(task_queue_id) or _Traffic(began=now)
        self._pools[task_queue_id] = traffic  # set anew, so that the memo drops it last
        _roll(traffic, now)
        traffic.count += 1
        return int(2 ** (traffic.level - 1)) if traffic.level else 0

    def worked(self, task_queue_id: str) -> None:
        """Forgets what was counted for a pool: there is work."""
        self._pools.pop(task_queue_id)


def _roll(traffic: _Traffic, now: datetime) -> None:
    """Adjusts the level for the windows that have passed, and begins a new one."""
    passed = int((now - traffic.began) / WINDOW)
    if passed <= 0:
        return
    if traffic.count > FREE:
        traffic.level = min(traffic.level + 1, HIGHEST)
    elif traffic.count <= FREE // 2:
        traffic.level -= 1
    quiet = passed - 1
    traffic.level = max(traffic.level - quiet, 0)
    traffic.began += passed * WINDOW
    traffic.count = 0


Way = Literal["claimWork", "pollTaskUrls"]
"""The ways in which a worker waits: in a call, or by polling with URLs that it was given."""
REPORT_SECONDS = 60.0


class WaitingWorkerCounts:
    """Reports how many workers wait in each task queue."""

    def __init__(self, runtime: Runtime, ways: Mapping[Way, Callable[[], Counter[str]]]) -> None:
        """Makes the counts. `ways`: for each way of waiting, a function that counts those who wait by task queue."""
        self._meter = runtime.meter
        self._sleep = runtime.sleep
        self._ways = ways

    def of_task_queue(self, task_queue_id: str) -> dict[Way, int]:
        """Returns how many workers wait in a task queue, as far as this process knows."""
        return {way: count()[task_queue_id] for way, count in self._ways.items()}

    async def keep_reporting(self) -> None:
        """Reports every minute, for as long as the process lives: exporters want it of each process."""
        while True:
            await self._sleep(REPORT_SECONDS)
            self.report()

    def report(self) -> None:
        """Sets the gauge of this process. A task queue in which no one waits any more is reported once more, with 0."""
        for way, count in self._ways.items():
            waiting = dict(count().most_common(bounds.MEASURED_QUEUES))
            for labels, before in self._meter.values_of(WAITING_WORKERS).items():
                if labels[2] != way or "/".join(labels[:2]) in waiting:
                    continue
                if before:
                    self._meter.set(WAITING_WORKERS, 0, *labels)
                else:
                    self._meter.forget(WAITING_WORKERS, labels)
            for task_queue_id, number in waiting.items():
                self._meter.set(WAITING_WORKERS, number, *task_queue_id.split("/", 1), way)
