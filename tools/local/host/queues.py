"""Queue triggers: a listener per function, with the polling, leases and poison queue of the platform's own.

Order of events for a message: taken (hidden for `take_visibility`), its function runs while the lease is renewed at
half time, then it is deleted; or, if the function failed, shown again, or moved to the poison queue at its last try.
"""

import asyncio
import base64
import binascii
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.functions.meta import Datum
from azure.storage.queue import QueueMessage
from azure.storage.queue.aio import QueueClient, QueueServiceClient

from tools.local.host.backoff import MINIMUM_SECONDS, Backoff
from tools.local.host.config import QueueOptions
from tools.local.host.functions import IndexedFunction, QueueTrigger
from tools.local.host.invocation import InvocationFailed, Invoker

TAKE_SECONDS = 600
"""How long the platform hides a message that it takes; renewed while the function runs."""

_POISON = "-poison"
_MAX_NAME = 63
_GONE = ("PopReceiptMismatch", "MessageNotFound", "QueueNotFound", "QueueBeingDeleted", "QueueDisabled")
"""Errors on an update or delete that mean: somebody else has the message, or there is nothing left to do."""

_log = logging.getLogger(__name__)


class Undecodable(ValueError):
    """The message's text is not in the encoding that host.json names."""


class QueueListener:
    """Takes messages of one queue and runs one function on each."""

    def __init__(
        self,
        function: IndexedFunction,
        service: QueueServiceClient,
        queue: str,
        options: QueueOptions,
        invoker: Invoker,
        *,
        take_visibility: int,
        jitter: Callable[[], float],
    ) -> None:
        """`function` has a queue trigger; `queue` is its queue's name; `take_visibility` in seconds."""
        assert isinstance(function.trigger, QueueTrigger), "only queue functions have a queue listener"
        self._function = function
        self._binary = function.trigger.binary
        self._options = options
        self._invoker = invoker
        self._take_visibility = take_visibility
        self._backoff = Backoff(options.max_polling_interval, jitter)
        self._queue = service.get_queue_client(queue)
        # A queue of poison, or one whose name leaves no room for the suffix, has no poison queue of its own.
        has_poison = not queue.endswith(_POISON) and len(queue) + len(_POISON) <= _MAX_NAME
        self._poison = service.get_queue_client(queue + _POISON) if has_poison else None
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Listen until `stop` is called. A storage that fails is asked again after the back-off."""
        exists = False
        found_since_delay = False
        while not self._stopping.is_set():
            try:
                exists = exists or await _create(self._queue)
                found = await self._take()
            except AzureError as error:
                exists = exists and not isinstance(error, ResourceNotFoundError)
                found = False
                _log.warning("Queue %s cannot be read: %s", self._queue.queue_name, type(error).__name__)
            if found:
                found_since_delay = True
                await self._until_room()
            else:
                delay = self._backoff.next_delay(found=found_since_delay)
                found_since_delay = False
                await _is_set_within(self._stopping, delay)

    async def stop(self, grace: float) -> None:
        """Take no more messages; give the running functions `grace` seconds, then cancel them.

        The message of a cancelled function stays hidden until its lease ends, as when an instance dies.
        """
        self._stopping.set()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _take(self) -> bool:
        pages = self._queue.receive_messages(
            messages_per_page=self._options.batch_size, visibility_timeout=self._take_visibility
        ).by_page()
        page = await anext(pages, None)
        batch = [message async for message in page] if page else []
        for message in batch:
            task = asyncio.create_task(self._process(message))
            self._running.add(task)
            task.add_done_callback(self._forget)
        return bool(batch)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception():
            _log.error("Queue %s: a message could not be processed", self._queue.queue_name, exc_info=task.exception())

    async def _until_room(self) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while len(self._running) > self._options.new_batch_threshold and not stopping.done():
                await asyncio.wait({*self._running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _process(self, message: QueueMessage) -> None:
        try:
            if (message.dequeue_count or 0) > self._options.max_dequeue_count:
                await self._move_to_poison(message)
                return
            try:
                payload = message_payload(message.content, self._options.message_encoding, binary=self._binary)
            except Undecodable as error:
                _log.warning("Queue %s: message %s: %s", self._queue.queue_name, message.id, error)
                await self._move_to_poison(message)
                return
            async with self._leased(message):
                succeeded = await self._invoke(message, payload)
            await self._complete(message, succeeded)
        except AzureError as error:
            # The lease ends by itself, and the message comes again.
            _log.warning(
                "Queue %s: message %s could not be settled: %s",
                self._queue.queue_name,
                message.id,
                type(error).__name__,
            )

    async def _invoke(self, message: QueueMessage, payload: Datum) -> bool:
        try:
            await self._invoker.invoke(self._function, payload, message_metadata(message))
        except InvocationFailed:
            return False
        return True

    async def _complete(self, message: QueueMessage, succeeded: bool) -> None:
        if succeeded:
            with _unless_gone():
                await self._queue.delete_message(message.id, message.pop_receipt)
        elif self._poison is None:
            # The message stays hidden until its lease ends. If it were shown at once, it would be handled in a tight
            # loop, for ever.
            return
        elif (message.dequeue_count or 0) >= self._options.max_dequeue_count:
            await self._move_to_poison(message)
        else:
            with _unless_gone():
                await self._queue.update_message(
                    message.id, message.pop_receipt, visibility_timeout=self._options.visibility_timeout
                )

    async def _move_to_poison(self, message: QueueMessage) -> None:
        if self._poison is None:
            return
        _log.warning("Queue %s: message %s is moved to the poison queue", self._queue.queue_name, message.id)
        try:
            await self._poison.send_message(message.content)
        except ResourceNotFoundError:
            await _create(self._poison)
            await self._poison.send_message(message.content)
        with _unless_gone():
            await self._queue.delete_message(message.id, message.pop_receipt)

    @contextlib.asynccontextmanager
    async def _leased(self, message: QueueMessage) -> AsyncIterator[None]:
        done = asyncio.Event()
        renewal = asyncio.create_task(self._renew(message, done))
        try:
            yield
        finally:
            # Not cancelled: a renewal that is under way must give its receipt to the message, to settle it with.
            done.set()
            await renewal

    async def _renew(self, message: QueueMessage, done: asyncio.Event) -> None:
        delay = self._take_visibility / 2
        while not await _is_set_within(done, delay):
            renewed = await self._renew_once(message)
            if renewed is None:
                return
            delay = self._take_visibility / 2 if renewed else max(delay / 2, MINIMUM_SECONDS)

    async def _renew_once(self, message: QueueMessage) -> bool | None:
        """Whether it worked; None if there is nothing to renew any more."""
        try:
            updated = await self._queue.update_message(
                message.id, message.pop_receipt, visibility_timeout=self._take_visibility
            )
        except AzureError as error:
            if _is_gone(error):
                return None
            _log.warning(
                "Queue %s: message %s could not be renewed: %s",
                self._queue.queue_name,
                message.id,
                type(error).__name__,
            )
            return False
        message.pop_receipt = updated.pop_receipt
        return True


def message_metadata(message: QueueMessage) -> dict[str, Datum]:
    """The trigger metadata of a message, as the host hands it to a worker."""
    return {
        "Id": Datum(message.id, "string"),
        "PopReceipt": Datum(message.pop_receipt, "string"),
        "DequeueCount": Datum(json.dumps(message.dequeue_count), "json"),
        "InsertionTime": _time(message.inserted_on),
        "ExpirationTime": _time(message.expires_on),
        "NextVisibleTime": _time(message.next_visible_on),
    }


def _time(value: datetime | None) -> Datum:
    return Datum(json.dumps(value.isoformat() if value else None), "json")


def message_payload(text: str | None, encoding: str, *, binary: bool) -> Datum:
    text = text or ""
    if encoding == "base64":
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Undecodable("it is not base64") from error
    else:
        data = text.encode()
    return Datum(data, "bytes") if binary else Datum(data.decode(errors="replace"), "string")


async def _create(queue: QueueClient) -> bool:
    with contextlib.suppress(ResourceExistsError):
        await queue.create_queue()
    return True


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(event.wait(), seconds)
    return False


def _is_gone(error: AzureError) -> bool:
    return isinstance(error, HttpResponseError) and getattr(error, "error_code", None) in _GONE


@contextlib.contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except AzureError as error:
        if not _is_gone(error):
            raise
