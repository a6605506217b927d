"""One lean HTTP pipeline for every storage client of a process, and the connections of them all.

The SDKs' own pipelines take 17 policies and 1.5 ms of CPU a request; these keep what matters: counting, decoding,
retries, date, credentials. Private names of the SDKs are used here and in `connection`, and nowhere else; their
versions are pinned. aiohttp is loaded with this module, a tenth of a second: no hot request needs it.
"""

from __future__ import annotations

import asyncio
import io
import time
from typing import Any
from wsgiref.handlers import format_date_time

import aiohttp
from azure.core.exceptions import ServiceRequestError, ServiceResponseError, ServiceResponseTimeoutError
from azure.core.pipeline import AsyncPipeline, PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncHTTPPolicy, ContentDecodePolicy, SansIOHTTPPolicy
from azure.core.pipeline.transport import AioHttpTransport, AsyncHttpTransport

from shared.store import counting
from shared.store.wire import REQUEST_ID, USER_AGENT, Patience, Watch, may_pass, new_request_id

_TRANSPORT_OPTIONS = frozenset({"stream", "read_timeout", "connection_timeout"})
_PRIMARY = "primary"
_LARGE_BODY = 1 << 18


class Transport(AioHttpTransport):  # type: ignore[misc]  # the SDK exports it lazily, without a type
    """aiohttp as the SDKs use it, for one event loop."""

    def __init__(self, patience: Patience) -> None:
        # With True (the SDK's default), aiohttp asks netrc and the proxy settings in a thread, twice a request.
        super().__init__(use_env_settings=False, connection_timeout=patience.connect, read_timeout=patience.read)

    def _get_request_data(self, request: Any) -> Any:
        return _in_pieces(super()._get_request_data(request))


class RequestPolicy(AsyncHTTPPolicy[Any, Any]):
    """Adapts requests of the SDKs as their own pipelines would: options taken off, the location, the range header."""

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Prepare the request once, whatever retries follow."""
        context = request.context
        context["location_mode"] = _PRIMARY
        context["time_allowed"] = context.options.pop("time_allowed", None)
        for option in [name for name in context.options if name not in _TRANSPORT_OPTIONS]:
            del context.options[option]
        headers = request.http_request.headers
        headers["User-Agent"] = USER_AGENT
        if (byte_range := headers.pop("Range", None)) is not None:
            headers["x-ms-range"] = byte_range  # shared keys sign this one
        response = await self.next.send(request)
        response.http_response.location_mode = _PRIMARY
        return response


class RetryPolicy(AsyncHTTPPolicy[Any, Any]):
    """Tries again what `wire.Wire` does: no connection, no answer, 408, 429, 5xx."""

    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Try within the time allowed. Raises the last error, or ServiceResponseTimeoutError at the end of time."""
        seconds = request.context.pop("time_allowed", None) or self._patience.total
        try:
            async with asyncio.timeout(seconds):
                return await self._try(request)
        except TimeoutError as error:
            raise ServiceResponseTimeoutError(f"no answer within {seconds} s") from error

    async def _try(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        options = dict(request.context.options)  # the transport takes them off
        for pause in self._patience.pauses():
            try:
                response = await self.next.send(request)
                if not may_pass(response.http_response.status_code):
                    return response
            except (ServiceRequestError, ServiceResponseError):
                pass  # the next try shows it; the last one, below, is not caught
            await asyncio.sleep(pause)
            request.context.options.update(options)
            counting.retried()
        return await self.next.send(request)


class DatePolicy(SansIOHTTPPolicy[Any, Any]):
    """Sets the date and the request id of each try before it is signed, and checks that the answer has that id."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Set the date and the name of this try."""
        request.http_request.headers["x-ms-date"] = format_date_time(time.time())
        request.http_request.headers[REQUEST_ID] = new_request_id()

    def on_response(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> None:
        """Raises ServiceResponseError for the answer to another request, as if there were none."""
        answer = response.http_response
        if (name := answer.headers.get(REQUEST_ID)) not in {None, request.http_request.headers[REQUEST_ID]}:
            _close_connection(answer.internal_response)
            raise ServiceResponseError(f"an answer to {name}")


Credentials = AsyncHTTPPolicy[Any, Any] | SansIOHTTPPolicy[Any, Any]
"""A policy that signs a request or adds a token."""


class WatchPolicy(AsyncHTTPPolicy[Any, Any]):
    """Shows each request once, whatever retries follow."""

    def __init__(self, service: str, watch: Watch) -> None:
        super().__init__()
        self._service = service
        self._watch = watch

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Show it, and its status."""
        with self._watch(self._service, request.http_request.method, request.http_request.url) as note:
            response = await self.next.send(request)
            note(response.http_response.status_code)
        return response


def make_pipeline(
    service: str,
    transport: AsyncHttpTransport[Any, Any],
    credentials: Credentials,
    patience: Patience,
    watch: Watch | None = None,
) -> AsyncPipeline[Any, Any]:
    """The pipeline for "table", "queue" or "blob"."""
    return AsyncPipeline(
        transport,
        [
            *([WatchPolicy(service, watch)] if watch else []),
            counting.CountingPolicy(service),
            RequestPolicy(),
            ContentDecodePolicy(response_encoding="utf-8"),
            RetryPolicy(patience),
            DatePolicy(),
            credentials,
        ],
    )


def _close_connection(response: aiohttp.ClientResponse) -> None:
    """Closes the connection of a response, even one that was read to its end: by then another request may be using the
    connection.
    """
    if response._protocol is not None:
        response._protocol.close()


def _in_pieces(data: Any) -> Any:
    """A large body goes in pieces, so that it does not hold the event loop; each try reads it from its start."""
    return io.BytesIO(data) if isinstance(data, bytes) and len(data) > _LARGE_BODY else data
