"""The connections and the policy (retries, counts, spans) with which the SDKs' clients are made. Everything else of
their pipelines is their own: without a look at the environment's proxy settings for each request, a pipeline of ours
would take as much CPU (0.8 ms a request). aiohttp is loaded with this module, in a tenth of a second: no hot request
needs it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import ServiceRequestError, ServiceResponseError, ServiceResponseTimeoutError
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncHTTPPolicy
from azure.core.pipeline.transport import AioHttpTransport

from shared.store import counting
from shared.store.counting import Kind
from shared.store.wire import REQUEST_ID, Patience, Watch, may_pass

_LARGE_BODY = 1 << 18
_TRY_OPTIONS = frozenset({"stream", "proxies", "read_timeout", "connection_timeout"})
_PRIMARY = "primary"
"""The location that the SDKs are told for every answer: an account's secondary location is never asked."""


class Transport(AioHttpTransport):  # type: ignore[misc]  # the SDK exports it lazily, without a type
    """aiohttp as the SDKs use it, for one event loop."""

    def __init__(self, patience: Patience) -> None:
        # With True (the SDK's default), aiohttp asks netrc and the proxy settings in a thread, twice a request.
        super().__init__(use_env_settings=False, connection_timeout=patience.connect, read_timeout=patience.read)

    async def send(self, request: Any, **options: Any) -> Any:
        """Sends one try. A large body goes in pieces, so that it does not hold the event loop. Raises
        ServiceResponseError for the answer to another request, as if there were none."""
        body = request.data
        if isinstance(body, bytes) and len(body) > _LARGE_BODY:
            request.data = io.BytesIO(body)
        try:
            answer = await super().send(request, **{name: options[name] for name in _TRY_OPTIONS & options.keys()})
        finally:
            request.data = body
        if (name := answer.headers.get(REQUEST_ID)) not in {None, request.headers.get(REQUEST_ID)}:
            # Closed even if the answer was read to its end: by then another request may be using the connection.
            if answer.internal_response._protocol is not None:
                answer.internal_response._protocol.close()
            raise ServiceResponseError(f"an answer to {name}")
        return answer


@contextmanager
def noted(watch: Watch | None, kind: Kind, service: str, method: str, url: str) -> Iterator[Callable[[int], None]]:
    """Counts and shows a request once, whatever retries follow; yields a function that takes its status."""
    watched = watch(service, method, url) if watch else nullcontext(lambda _: None)
    with watched as note, counting.recorded(kind, urlsplit(url).path):
        yield note


class Tries(AsyncHTTPPolicy[Any, Any]):
    """The retry policy of a service's clients: tries again what `wire.Wire` does (no connection, no answer, 408, 429,
    5xx), and counts and shows each request once, whatever retries follow."""

    def __init__(self, service: str, patience: Patience, watch: Watch | None) -> None:
        """Makes the policy for the clients of `service`: "queue" or "blob"."""
        super().__init__()
        self._service = service
        self._patience = patience
        self._watch = watch

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Tries within the time allowed. Raises the last error, or ServiceResponseTimeoutError at the end of time."""
        asked = request.http_request
        seconds = request.context.options.pop("time_allowed", None) or self._patience.total
        kind = Kind.BLOB_READ if asked.method in {"GET", "HEAD"} else Kind.BLOB_WRITE
        if self._service == "queue" or (asked.method == "PUT" and "restype=container" in asked.url):
            kind = Kind.MAKE  # a delegated key, a container
        with noted(self._watch, kind, self._service, asked.method, asked.url) as note:
            try:
                async with asyncio.timeout(seconds):
                    response = await self._try(request)
            except TimeoutError as error:
                raise ServiceResponseTimeoutError(f"no answer within {seconds} s") from error
            note(response.http_response.status_code)
        response.http_response.location_mode = _PRIMARY
        return response

    async def _try(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        options = dict(request.context.options)  # later policies take them off
        for number in range(self._patience.retries.tries - 1):
            try:
                response = await self.next.send(request)
                if not may_pass(response.http_response.status_code):
                    return response
            except (ServiceRequestError, ServiceResponseError):
                pass  # the next try shows it; the last one, below, is not caught
            await asyncio.sleep(self._patience.pause(number))
            request.context.options.update(options)
            counting.retried()
        return await self.next.send(request)
