"""One topic's sender: shared by every call of the process, opened ahead and again when it fails or has been idle. Calls
that publish while a send is under way are sent together in the next one. Every message that is sent belongs to a call
that still waits: when the last of them has left, the send is given up."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from azure.servicebus import exceptions
from azure.servicebus.aio import ServiceBusSender

from shared.base import bounds
from shared.base.errors import ServiceError
from shared.queue.events.announcer import Breaker
from shared.queue.events.link import Link
from shared.queue.events.rendering import EventMessage

REFUSALS = (
    exceptions.MessageSizeExceededError,
    exceptions.MessagingEntityDisabledError,
    exceptions.MessagingEntityNotFoundError,
    exceptions.ServiceBusAuthorizationError,
    exceptions.ServiceBusQuotaExceededError,
    exceptions.ServiceBusServerBusyError,
)
"""Service Bus answered, and the answer was no: trying again at once won't help, and other topics may do well."""


class SendTimeout(ServiceError):
    """Service Bus did not answer in time."""


class Blocked(ServiceError):
    """The send was not tried, since Service Bus has been failing."""


class NotOpen(ServiceError):
    """The connection is still being opened, or could not be."""


def may_be_about_one_message(error: exceptions.ServiceBusError) -> bool:
    """Returns whether a batch may have been refused for one message: its size, or a reason without an SDK type."""
    return isinstance(error, exceptions.MessageSizeExceededError) or type(error) is exceptions.ServiceBusError


OPEN_SECONDS = 10.0
"""How long opening a connection may take. It goes on after its callers have left, so that the next finds it open."""
OPEN_WAIT_SECONDS = 0.1
"""How long callers wait for an opening that has begun: about what a message in the fallback queue costs them."""
IDLE_SECONDS = 200.0
"""A connection that was idle for longer is not used again: Service Bus closes it after 240 s."""
REOPEN_SECONDS = 150.0
"""A connection that was idle for longer is replaced in the background, so that no call finds it too old."""
_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Item:
    """A message that somebody waits for."""

    message: EventMessage
    timeout: float
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False, repr=False)
class Channel:
    """Sends to one topic. `connectivity` is shared by the channels of a namespace, `refusals` is this topic's."""

    _topic: str
    _make_sender: Callable[[], ServiceBusSender]
    _connectivity: Breaker
    _refusals: Breaker
    _monotonic: Callable[[], float]
    _: KW_ONLY
    open_wait: float = OPEN_WAIT_SECONDS

    def __post_init__(self) -> None:
        self._used_at = self._monotonic()
        self._opened_at = self._monotonic()
        self._waiting: deque[_Item] = deque()
        self._callers = 0
        self._pump: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[Link] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, messages: Sequence[EventMessage], timeout: float) -> list[tuple[EventMessage, Exception]]:
        """Sends the messages and returns those that were not accepted, with the reason."""
        if self._connectivity.blocks() or self._refusals.blocks():
            return [(message, Blocked()) for message in messages]
        with self._connectivity.attempt(), self._refusals.attempt():
            items = [_Item(message, timeout) for message in messages]
            self._waiting.extend(items)
            self._callers += 1
            if self._pump is None:
                self._pump = asyncio.create_task(self._run())
            try:
                _, late = await asyncio.wait([item.done for item in items], timeout=timeout)
                if late:
                    self._count_failure(SendTimeout())
            finally:
                self._leave(items)
            return [(item.message, problem) for item in items if (problem := _problem(item.done)) is not None]

    async def keep_open(self, idle: float = REOPEN_SECONDS) -> None:
        """Opens the connection if there is none, and replaces one that was not used for `idle` seconds. For a task in
        the background. A failure shows in the breaker only."""
        if self._callers or self._connectivity.blocks() or self._refusals.blocks():
            return
        if self._opening is None:
            await asyncio.wait([self._begin_opening()])
        elif self._opening.done() and self._monotonic() - self._used_at > idle:
            await self._replace()

    async def close(self) -> None:
        """Gives up what is under way and closes the connection."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        self._discard()
        if self._closing:
            await asyncio.wait(self._closing)

    def _leave(self, items: Sequence[_Item]) -> None:
        """Drops messages whose caller has given up. When no caller is left, gives up the send that is under way."""
        self._callers -= 1
        for item in items:
            item.done.cancel()
        if self._callers == 0 and self._pump is not None:
            self._pump.cancel()
            self._pump = None
            self._waiting.clear()
            self._discard()

    async def _run(self) -> None:
        """Sends batch after batch while somebody waits."""
        try:
            while self._waiting:
                batch: list[_Item] = []
                while self._waiting and len(batch) < bounds.EVENTS_OF_A_SEND:
                    item = self._waiting.popleft()
                    if not item.done.done():
                        batch.append(item)
                if batch:
                    await self._send_or_fail(batch)
        finally:
            if self._pump is asyncio.current_task():
                self._pump = None

    async def _send_or_fail(self, batch: list[_Item]) -> None:
        try:
            async with asyncio.timeout(max(item.timeout for item in batch)):
                await self._send_batch(batch)
        except TimeoutError:
            self._discard()
            self._fail(batch, SendTimeout())
        except Exception as error:
            self._fail(batch, error)
        else:
            self._connectivity.succeeded()
            self._refusals.succeeded()

    async def _send_batch(self, batch: list[_Item]) -> None:
        """Sends the batch. If Service Bus refuses it for what may concern one message only, sends each alone."""
        try:
            await self._send_on_a_new_link_if_needed(batch)
        except exceptions.ServiceBusError as error:
            if len(batch) == 1 or not may_be_about_one_message(error):
                raise
            _logger.info("sending %d messages to %s one by one after %s", len(batch), self._topic, type(error).__name__)
            await self._send_one_by_one(batch)

    async def _send_one_by_one(self, batch: Sequence[_Item]) -> None:
        """Sends each message alone. Raises when two in a row are refused, the reason is then not one message."""
        refused_before = False
        for item in batch:
            if item.done.done():
                continue
            try:
                await self._transfer([item])
                refused_before = False
            except exceptions.ServiceBusError as error:
                if refused_before or not may_be_about_one_message(error):
                    raise
                _logger.warning("%s refuses a message: %s", self._topic, type(error).__name__)
                _finish(item, error)
                refused_before = True
                if not isinstance(error, REFUSALS):
                    self._discard()

    async def _send_on_a_new_link_if_needed(self, batch: list[_Item]) -> None:
        """Sends on the open link, and once more on a new one if that fails: a link dies of idleness, too."""
        try:
            await self._transfer(batch)
        except (*REFUSALS, NotOpen):
            raise
        except Exception as error:
            _logger.info("sending to %s again after %s", self._topic, type(error).__name__)
            self._discard()
            await self._transfer(batch)

    async def _transfer(self, batch: list[_Item]) -> None:
        """Sends as many messages of the batch as fit into one send, and puts the others back in front."""
        link = await self._link()
        count = await link.send([item.message for item in batch])
        if count == 0:
            _finish(batch[0], exceptions.MessageSizeExceededError())
            count = 1
        for item in batch[:count]:
            _finish(item, None)
        self._waiting.extendleft(reversed(batch[count:]))
        del batch[count:]

    async def _link(self) -> Link:
        """Returns the open link. Raises NotOpen if opening it takes longer than a call may wait; that then goes on."""
        if self._monotonic() - self._used_at > IDLE_SECONDS:
            self._discard()
        self._used_at = self._monotonic()
        opening = self._opening or self._begin_opening()
        if not opening.done():
            left = self._opened_at + self.open_wait - self._monotonic()
            await asyncio.wait([opening], timeout=max(left, 0))
        if not opening.done() or opening.cancelled():
            raise NotOpen
        error = opening.exception()
        if error is not None:
            raise NotOpen from error
        return opening.result()

    def _begin_opening(self) -> asyncio.Task[Link]:
        self._opened_at = self._used_at = self._monotonic()
        self._opening = asyncio.create_task(self._open())
        self._opening.add_done_callback(self._opened)
        return self._opening

    def _opened(self, opening: asyncio.Task[Link]) -> None:
        """Drops a link that could not be opened, so that the next call opens another. The failure counts once."""
        error = None if opening.cancelled() else opening.exception()
        if error is None:
            return
        if self._opening is opening:
            self._opening = None
        self._count_failure(error)

    async def _replace(self) -> None:
        """Opens another link and closes the one before, unless that was used meanwhile."""
        before, used_at = self._opening, self._used_at
        another = asyncio.create_task(self._open())
        try:
            await asyncio.wait([another])
        except asyncio.CancelledError:
            another.cancel()
            await asyncio.wait([another])
            if not another.cancelled() and another.exception() is None:
                self._close_later(another.result())
            raise
        error = another.exception()
        if error is not None:
            self._count_failure(error)
        elif self._opening is before and self._used_at == used_at and not self._callers:
            self._discard()
            self._opening = another
            self._used_at = self._monotonic()
        else:
            self._close_later(another.result())

    async def _open(self) -> Link:
        async with asyncio.timeout(OPEN_SECONDS):
            return await Link.open(self._make_sender())

    def _discard(self) -> None:
        """Forgets the link, so that the next send opens another. One that is still being opened is kept."""
        opening = self._opening
        if opening is None or not opening.done():
            return
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._close_later(opening.result())

    def _close_later(self, link: Link) -> None:
        """Closes a link in the background, since that may take a while. The link holds no message."""
        task = asyncio.create_task(link.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _fail(self, batch: Sequence[_Item], error: Exception) -> None:
        if not isinstance(error, NotOpen):
            self._count_failure(error)
        for item in batch:
            _finish(item, error)

    def _count_failure(self, error: BaseException) -> None:
        """Counts a failure with the breaker that it is about."""
        _logger.warning("cannot send to %s: %s", self._topic, type(error).__name__)
        breaker = self._refusals if isinstance(error, REFUSALS) else self._connectivity
        breaker.failed()


def _finish(item: _Item, error: Exception | None) -> None:
    if item.done.done():
        return
    if error is None:
        item.done.set_result(None)
    else:
        item.done.set_exception(error)


def _problem(done: asyncio.Future[None]) -> Exception | None:
    """Returns what went wrong with a message whose caller is about to leave, or None."""
    if done.cancelled():
        return SendTimeout()
    error = done.exception()
    assert error is None or isinstance(error, Exception), "only exceptions are set on items"
    return error
