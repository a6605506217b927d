"""One lean HTTP pipeline for every storage client of a process.

The SDKs' own pipelines take 17 policies and 1.5 ms of CPU a request; these keep what matters: counting, decoding,
retries, date, credentials. Private names of the SDKs are used here and in `connection`, and nowhere else; their
versions are pinned.
"""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from wsgiref.handlers import format_date_time

from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError, ServiceResponseTimeoutError
from azure.core.pipeline import AsyncPipeline, PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncHTTPPolicy, ContentDecodePolicy, SansIOHTTPPolicy
from azure.core.pipeline.transport import AioHttpTransport, AsyncHttpTransport

from shared.errors import ServiceError
from shared.storage import batch, counting
from shared.storage.interface import StorageRefused, StorageUnavailable

_USER_AGENT = "taskcluster-queue-on-azure"
_TRANSPORT_OPTIONS = frozenset({"stream", "read_timeout", "connection_timeout"})
_PRIMARY = "primary"
_LARGE_BODY = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request may take, in seconds, and how often it is tried again.

    `total` covers all tries of a small request, their pauses, and the wait for a free connection; a transfer of
    bytes gets a second more for every `bytes_per_second` (a floor for slow networks).
    """

    connect: float = 3
    read: float = 5
    total: float = 8
    retries: int = 3
    first_pause: float = 0.1
    """Before the first retry; the next ones wait three times longer each. Jitter: 50 to 150 % of it."""
    bytes_per_second: int = 1 << 20
    jitter: Callable[[], float] = random.random
    """A number in [0, 1)."""


class Refused(ServiceError):
    """The service's answer was no. Adapters give it a meaning; where it has none, it is a defect of ours.

    `status` is HTTP's, `code` the service's own word, `index` the operation of a transaction that it is about.
    """

    def __init__(self, status: int, code: str, index: int = 0) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.index = index


def _refused(response: Any) -> Refused:
    return Refused(response.status_code, response.headers.get("x-ms-error-code") or _code_of_body(response))


REFUSALS: Mapping[int, Callable[[Any], Refused]] = dict.fromkeys((400, 404, 409, 412, 413, 416), _refused)
"""The `error_map` of every SDK call: the SDKs' own errors cost a second parse, and hide the 404 of a delete."""


@contextmanager
def unavailable() -> Iterator[None]:
    """What the SDKs raise for a failed request becomes StorageUnavailable, or StorageRefused where an answer came that
    will not change; the text holds no URL and no secret."""
    try:
        yield
    except AzureError as error:
        status = getattr(error, "status_code", None)
        kind = StorageRefused if status and not may_pass(status) else StorageUnavailable
        raise kind(f"{type(error).__name__} {status or ''}".strip()) from error


class Transport(AioHttpTransport):  # type: ignore[misc]  # the SDK exports it lazily, without a type
    """aiohttp as the SDKs use it, for one event loop."""

    def __init__(self, patience: Patience) -> None:
        # With True (the SDK's default), aiohttp asks netrc and the proxy settings in a thread, twice a request.
        super().__init__(use_env_settings=False, connection_timeout=patience.connect, read_timeout=patience.read)

    def _get_request_data(self, request: Any) -> Any:
        """A large body goes in pieces, so that it does not hold the event loop; each try reads it from its start."""
        data = super()._get_request_data(request)
        return io.BytesIO(data) if isinstance(data, bytes) and len(data) > _LARGE_BODY else data


class RequestPolicy(AsyncHTTPPolicy[Any, Any]):
    """Adapts requests of the SDKs as their own pipelines would: options taken off, the location, the range header."""

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Prepare the request once, whatever retries follow."""
        context = request.context
        context["location_mode"] = _PRIMARY
        context["patience"] = context.options.pop("patience", None)
        for option in [name for name in context.options if name not in _TRANSPORT_OPTIONS]:
            del context.options[option]
        headers = request.http_request.headers
        headers["User-Agent"] = _USER_AGENT
        if (byte_range := headers.pop("Range", None)) is not None:
            headers["x-ms-range"] = byte_range  # shared keys sign this one
        response = await self.next.send(request)
        response.http_response.location_mode = _PRIMARY
        return response


class RetryPolicy(AsyncHTTPPolicy[Any, Any]):
    """Tries again what failed for a reason that may pass: no connection, no answer, 408, 429, 5xx.

    A write whose answer was lost is sent again as well: its repeat may be refused (409, 412, 404) by the first
    try's own effect. Callers tell by an operation id in the row (design 5).
    """

    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Try within the time allowed. Raises the last error, or ServiceResponseTimeoutError at the end of time."""
        seconds = request.context.pop("patience", None) or self._patience.total
        try:
            async with asyncio.timeout(seconds):
                return await self._try(request)
        except TimeoutError as error:
            raise ServiceResponseTimeoutError(f"no answer within {seconds} s") from error

    async def _try(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        options = dict(request.context.options)  # the transport takes them off
        pause = self._patience.first_pause
        for _ in range(self._patience.retries):
            try:
                response = await self.next.send(request)
                if not may_pass(response.http_response.status_code):
                    return response
            except (ServiceRequestError, ServiceResponseError):
                pass  # the next try shows it; the last one, below, is not caught
            await asyncio.sleep(pause * (0.5 + self._patience.jitter()))
            pause *= 3
            request.context.options.update(options)
            counting.retried()
        return await self.next.send(request)


class TransactionPolicy(AsyncHTTPPolicy[Any, Any]):
    """Lets a transaction be tried again that failed in passing: its answer is a 202 that holds a 5xx."""

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Read the answer to a transaction. Raises ServiceResponseError when the trouble in it may pass."""
        response = await self.next.send(request)
        if request.http_request.url.endswith("/$batch"):
            await response.http_response.read()
            if any(may_pass(status) for status in batch.statuses(response.http_response.content)):
                raise ServiceResponseError("the transaction failed in passing")
        return response


class DatePolicy(SansIOHTTPPolicy[Any, Any]):
    """Dates each try, as the signature needs it."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Set the date of this try."""
        request.http_request.headers["x-ms-date"] = format_date_time(time.time())


Credentials = AsyncHTTPPolicy[Any, Any] | SansIOHTTPPolicy[Any, Any]
"""A policy that signs a request or adds a token."""

Watch = Callable[[str], AsyncHTTPPolicy[Any, Any]]
"""A policy for a service that sees each request once, whatever retries follow."""


def make_pipeline(
    service: str,
    transport: AsyncHttpTransport[Any, Any],
    credentials: Credentials,
    patience: Patience,
    watch: Watch | None = None,
) -> AsyncPipeline[Any, Any]:
    """The pipeline for "table", "queue" or "blob". `watch` makes a policy that sees each request before all others."""
    return AsyncPipeline(
        transport,
        [
            *([watch(service)] if watch else []),
            counting.CountingPolicy(service),
            RequestPolicy(),
            ContentDecodePolicy(response_encoding="utf-8"),
            RetryPolicy(patience),
            *([TransactionPolicy()] if service == "table" else []),
            DatePolicy(),
            credentials,
        ],
    )


def may_pass(status: int) -> bool:
    """Whether an HTTP status speaks of a trouble that may pass."""
    return status in {408, 429} or (status >= 500 and status not in {501, 505})


def _code_of_body(response: Any) -> str:
    """Azure Tables names its error in a JSON body, without a header."""
    try:
        return str(response.json()["odata.error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""
