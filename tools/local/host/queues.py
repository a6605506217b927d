"""Queue triggers: a listener per function, with the polling, leases and poison queue of the platform's own.

Order of events for a message: taken (hidden for `Times.take`), its function runs while the lease is renewed at half
time, then it is deleted; or, if the function failed, shown again, or moved to the poison queue at its last try.

An error of storage that the platform's listener does not expect stops the host, not only the listener: what is refused
(400, 401, 403, 409, and 429 after six tries), and a connection that failed six times. 5xx and time-outs are waited for
when messages are fetched, but not when they are settled.
"""

import asyncio
import base64
import binascii
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.functions.meta import Datum
from azure.storage.queue import QueueMessage
from azure.storage.queue.aio import QueueServiceClient

from tools.local.host.backoff import Backoff
from tools.local.host.config import QueueOptions
from tools.local.host.connections import is_out_of_time, is_server_side, name_of
from tools.local.host.functions import IndexedFunction, QueueTrigger
from tools.local.host.invocation import InvocationFailed, Invokes

_POISON = "-poison"
_MAX_NAME = 63
_LEAST_RENEWAL_SECONDS = 60.0
"""Shortest time in seconds between a failed renewal of a lease and the next one."""
_GONE = ("PopReceiptMismatch", "MessageNotFound", "QueueNotFound", "QueueBeingDeleted", "QueueDisabled")
"""Error codes of an update or delete of a message that is gone, or that somebody else has."""
_NO_QUEUE = ("QueueNotFound", "QueueBeingDeleted")

_log = logging.getLogger(__name__)


class NoBase64(ValueError):
    """The message's text is not in the encoding that host.json names."""


class NoText(ValueError):
    """The message's bytes are no UTF-8."""


class QueueListener:
    """Takes messages of one queue and runs one function on each. It never creates the queue."""

    def __init__(
        self,
        function: IndexedFunction,
        service: QueueServiceClient,
        queue: str,
        options: QueueOptions,
        invoker: Invokes,
        *,
        take: int,
        jitter: Callable[[], float],
        stop: Callable[[str], None],
    ) -> None:
        """Takes a function with a queue trigger, its queue's name, and in `take` the length of a lease in seconds.
        `stop` is called when the host must end, with the reason."""
        assert isinstance(function.trigger, QueueTrigger), "only queue functions have a queue listener"
        self._function = function
        self._binary = function.trigger.binary
        self._options = options
        self._invoker = invoker
        self._take_seconds = take
        self._backoff = Backoff(options.max_polling_interval, jitter)
        self._stop = stop
        self._queue = service.get_queue_client(queue)
        # A queue of poison, or one whose name leaves no room for the suffix, has no poison queue of its own.
        has_poison = not queue.endswith(_POISON) and len(queue) + len(_POISON) <= _MAX_NAME
        self._poison = service.get_queue_client(queue + _POISON) if has_poison else None
        self.running: set[asyncio.Task[None]] = set()
        """What is being done with messages."""

    async def run(self) -> None:
        """Listens until cancelled, or until storage fails in a way that stops the host."""
        exists = False
        found_since_delay = False
        while True:
            try:
                exists = exists or await self._exists()
                found = exists and await self._take()
            except AzureError as error:
                if not (is_server_side(error) or is_out_of_time(error) or _code(error) in _NO_QUEUE):
                    self._stop(f"queue {self._queue.queue_name} cannot be read: {name_of(error)}")
                    return
                exists = found = False
                _log.warning("Queue %s cannot be read: %s", self._queue.queue_name, name_of(error))
            if found:
                found_since_delay = True
                while len(self.running) > self._options.new_batch_threshold:
                    await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(self._backoff.next_delay(found=found_since_delay))
                found_since_delay = False

    async def _exists(self) -> bool:
        try:
            await self._queue.get_queue_properties()
        except ResourceNotFoundError:
            _log.warning("Queue %s does not exist", self._queue.queue_name)
            return False
        return True

    async def _take(self) -> bool:
        pages = self._queue.receive_messages(
            messages_per_page=self._options.batch_size, visibility_timeout=self._take_seconds
        ).by_page()
        page = await anext(pages, None)
        batch = [message async for message in page] if page else []
        for message in batch:
            task = asyncio.create_task(self._process(message))
            self.running.add(task)
            task.add_done_callback(self.running.discard)
        return bool(batch)

    async def _process(self, message: QueueMessage) -> None:
        try:
            if (message.dequeue_count or 0) > self._options.max_dequeue_count:
                await self._move_to_poison(message)
                return
            try:
                payload = message_payload(message.content, self._options.message_encoding, binary=self._binary)
            except NoBase64:
                await self._move_to_poison(message)
                return
            except NoText:
                _log.error("Queue %s: message %s has bytes that are no UTF-8", self._queue.queue_name, message.id)
                await self._complete(message, succeeded=False)
                return
            async with self._leased(message):
                succeeded = await self._invoke(message, payload)
            await self._complete(message, succeeded=succeeded)
        except AzureError as error:
            self._stop(f"queue {self._queue.queue_name}: message {message.id} cannot be settled: {name_of(error)}")

    async def _invoke(self, message: QueueMessage, payload: Datum) -> bool:
        try:
            await self._invoker.invoke(self._function, payload, message_metadata(message))
        except InvocationFailed:
            return False
        return True

    async def _complete(self, message: QueueMessage, *, succeeded: bool) -> None:
        if succeeded:
            await self._delete(message)
        elif self._poison is None:
            # The message stays hidden until its lease ends. If it were shown at once, it would be handled in a tight
            # loop, for ever.
            return
        elif (message.dequeue_count or 0) >= self._options.max_dequeue_count:
            await self._move_to_poison(message)
        else:
            await self._hide(message, self._options.visibility_timeout)

    async def _move_to_poison(self, message: QueueMessage) -> None:
        if self._poison is None:
            return
        _log.warning("Queue %s: message %s is moved to the poison queue", self._queue.queue_name, message.id)
        try:
            await self._poison.send_message(message.content)
        except ResourceNotFoundError:
            await self._poison.create_queue()
            await self._poison.send_message(message.content)
        await self._delete(message)

    async def _delete(self, message: QueueMessage) -> None:
        try:
            await self._queue.delete_message(message.id, message.pop_receipt)
        except HttpResponseError as error:
            if _code(error) not in _GONE:
                raise

    async def _hide(self, message: QueueMessage, seconds: int) -> bool:
        """Hides a message for `seconds` more. Returns whether this listener still has it."""
        try:
            updated = await self._queue.update_message(message.id, message.pop_receipt, visibility_timeout=seconds)
        except HttpResponseError as error:
            if _code(error) not in _GONE:
                raise
            return False
        message.pop_receipt = updated.pop_receipt
        return True

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
        delay = self._take_seconds / 2
        while not await _is_set_within(done, delay):
            try:
                if not await self._hide(message, self._take_seconds):
                    return
                delay = self._take_seconds / 2
            except AzureError as error:
                where = f"queue {self._queue.queue_name}: message {message.id} cannot be renewed"
                if not is_server_side(error):
                    self._stop(f"{where}: {name_of(error)}")
                    return
                _log.warning("%s: %s", where, name_of(error))
                delay = max(delay / 2, _LEAST_RENEWAL_SECONDS)


def message_metadata(message: QueueMessage) -> dict[str, Datum]:
    """Returns the trigger metadata of a message, as the host hands it to a worker."""
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
    """Returns what the function gets of a message's text. Raises NoBase64 or NoText."""
    data = (text or "").encode()
    if encoding == "base64":
        try:
            data = base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise NoBase64 from error
    if binary:
        return Datum(data, "bytes")
    try:
        return Datum(data.decode(), "string")
    except UnicodeDecodeError as error:
        raise NoText from error


def _code(error: AzureError) -> str:
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code))


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(event.wait(), seconds)
    return False
