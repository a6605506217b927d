"""The HTTP function: from requests to endpoint calls and back; the raw path, the order of checks, the error envelope.

Deployed Functions decode `%2F` before they match routes, and allow a catch-all only at the end of a route. So routes of
the platform could not tell the contract's paths apart (design 8). One function has a catch-all route instead, and the
router finds the endpoint.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import azure.functions as func
from opentelemetry.trace import SpanKind

from functions import process, telemetry_export
from functions.console import FOLDER, ConsoleSite, provider, sources
from functions.observation import observed
from functions.overload import Bodies, Load
from functions.time_limits import LONGEST_CALL
from shared.api.answer import (
    CORS,
    MOST_ECHOED,
    PACKED_FROM,
    SAME_AS,
    VARIES,
    Answer,
    at_root,
    echo,
    error_answer,
    fixed_headers,
    header_value,
    json_answer,
    not_found,
    pack,
)
from shared.api.caller import Authenticate, Caller, Verifier
from shared.api.endpoint import Call
from shared.api.router import Match, Router
from shared.api.validation import check_length, check_size, is_json, validate_params, validate_payload, validate_query
from shared.app import apis
from shared.app.reference import documents as references
from shared.app.services import Services
from shared.auth.authenticate import is_ambiguous, raw_target, signed_targets, target_of
from shared.auth.hawk import MacMismatch
from shared.base import bounds
from shared.base.errors import ApiError, InputError, InsufficientScopes, InternalServerError, ServiceUnavailable
from shared.base.frozen import replace
from shared.base.shares import CURRENT, NAMELESS, Share
from shared.queue.artifacts import object_endpoints as relay
from shared.store.interface import StorageUnavailable

log = logging.getLogger("taskcluster.http")

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]

_CALLS = (
    *(Router(api.prefix, api.endpoints) for api in apis.ALL),
    Router("", references.ENDPOINTS),
    Router("", telemetry_export.ENDPOINTS),
)
_UPLOADS = (Router(relay.UPLOAD_PREFIX, relay.UPLOAD_ENDPOINTS),)
SERVES_CALLS = process.SETTINGS.serves == "calls"
ROUTERS = (
    *(_CALLS if SERVES_CALLS else ()),
    *(() if SERVES_CALLS and process.SETTINGS.uploads_root_url else _UPLOADS),
)
"""The routers of the APIs that this app serves. The first one that knows a path handles the request."""

LOAD = Load(process.SETTINGS.max_concurrent_calls, process.SETTINGS.max_long_polls)
BODIES = Bodies()
CONSOLE = ConsoleSite.load(FOLDER, sources(process.SETTINGS), provider(process.SETTINGS))

_TRACE_ID = re.compile(r"[\x21-\x7e]{1,128}")

_LOGGED = frozenset({"taskId", "runId", "taskGroupId", "taskQueueId", "workerGroup", "workerId"})
"""URL parameters that every line of a call names."""


blueprint = func.Blueprint()


@blueprint.function_name("http")
@blueprint.route("{*path}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def http(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Handles every request to every API."""
    return await respond(req, context)


async def respond(request: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Handles a request with the first API that knows its path."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    target = raw_target(request.url, headers) or target_of(request.url)
    path, _, query = target.partition("?")
    method = "GET" if path in SAME_AS and request.method != "HEAD" else request.method
    path = SAME_AS.get(path, path)
    answer = at_root(path, process.SETTINGS.app_version)
    if answer is None and request.method in ("GET", "HEAD") and SERVES_CALLS:
        answer = CONSOLE.answer(path, headers) or CONSOLE.unknown(path, headers)
    answer = answer or not_found()
    for router in ROUTERS:
        match = router.find(method, path)
        if match is not None:
            answer = await _observed_answer(router, match, request, headers, query, context)
            break
        if method == "OPTIONS" and (methods := router.methods(path)):
            allow = ", ".join(methods)
            answer = Answer(body=allow.encode(), content_type="text/html; charset=utf-8", headers={"allow": allow})
            break
    return _response(answer, headers, context.invocation_id, is_head=request.method == "HEAD")


async def _observed_answer(
    router: Router,
    match: Match,
    request: func.HttpRequest,
    headers: Mapping[str, str],
    query: str,
    context: func.Context,
) -> Answer:
    services = await process.services()
    call = Call(
        endpoint=match.endpoint,
        params=match.params,
        authenticate=_authentication(router, services, match, request, headers),
        headers=headers,
    )
    fields: dict[str, str | int] = {"requestId": context.invocation_id}
    if trace_id := headers.get("x-taskcluster-trace-id"):
        fields["traceId"] = trace_id
    fields |= {name: value for name, value in match.params.items() if name in _LOGGED}
    parent = context.trace_context.trace_parent or headers.get("traceparent")
    with observed(services.runtime, match.endpoint.name, SpanKind.SERVER, fields, parent=parent) as seen:
        answer = await _in_time(services, call, request, query, seen.fields)
        seen.outcome = answer.outcome or str(answer.status)
        seen.failed = answer.status >= 500 and answer.outcome is None
        if call.known_caller is not None:
            seen.fields["clientId"] = call.known_caller.client_id or "anonymous"
    return answer


async def _in_time(
    services: Services, call: Call, request: func.HttpRequest, query: str, noted: dict[str, str | int]
) -> Answer:
    """Answers one call, at the latest when nobody can receive the answer any more."""
    try:
        async with asyncio.timeout(LONGEST_CALL):
            return await _answer(services, call, request, query, noted)
    except TimeoutError:  # all others are answered
        log.error("%s took %.0f s", call.endpoint.name, LONGEST_CALL, extra={"action": "call_too_long"})
        too_long = ServiceUnavailable("the call took too long; send it again")
        return await _refusal(too_long, call, request.get_body(), services)


async def _answer(
    services: Services, call: Call, request: func.HttpRequest, query: str, noted: dict[str, str | int]
) -> Answer:
    """Answers one call. What the URL and the headers tell is checked before the body is looked at (contract 1.5)."""
    endpoint, body = call.endpoint, request.get_body()
    async with AsyncExitStack() as held:
        try:
            check_length(endpoint, call.headers)
            arrival = _Arrival(services, call, query, body)
            await held.enter_async_context(_place(arrival, noted))
            if arrival.refusal is not None:
                raise await _in_full(arrival.refusal, services, call, query, body)
            call.may_wait, call.pause = not LOAD.is_high, LOAD.falls
            outcome = await _handled(services, call, query, body, held)
        except ApiError as error:
            return await _refusal(error, call, body, services)
        except StorageUnavailable as failure:
            log.warning("storage failed in %s: %s", endpoint.name, failure, extra={"action": "storage_unavailable"})
            unavailable = ServiceUnavailable("storage is not available; send the call again")
            return await _refusal(unavailable, call, body, services)
        except Exception:
            incident = services.runtime.slugid()
            log.exception("%s failed, incident %s", endpoint.name, incident, extra={"action": "call_failed"})
            return await _refusal(InternalServerError(f"Internal error, incident {incident}"), call, body, services)
        return await _packed(outcome if isinstance(outcome, Answer) else json_answer(outcome), call)


async def _packed(answer: Answer, call: Call) -> Answer:
    """Returns the answer, compressed if that is worth its time and the caller accepts it: in a thread, as it takes
    longer than other calls should wait."""
    if not call.endpoint.may_be_packed or len(answer.body) < PACKED_FROM:
        return answer
    if "gzip" not in call.headers.get("accept-encoding", ""):
        return replace(answer, headers={**answer.headers, **VARIES})
    return await asyncio.to_thread(pack, answer)


@dataclass
class _Arrival:
    """A call that is to be handled."""

    services: Services
    call: Call
    query: str
    body: bytes
    refusal: InsufficientScopes | None = None
    """The refusal that is certain already. It is raised only after a short body was read, which may make its message
    more exact."""

    async def check(self) -> Share:
        """Checks the body's size, the caller's credentials, and the scopes as far as they follow from the URL. Returns
        the share of the call.

        A call with invalid credentials has no name here; it is refused later, where credentials are needed.
        """
        CURRENT.set(NAMELESS)
        endpoint = self.call.endpoint
        if not endpoint.takes_content:
            check_size(len(self.body))
        if endpoint.authorised_by_url:
            await self.call.authorise()
        elif _is_parsed(self.call, self.body):
            try:
                await self.call.authorise_ahead()
            except InsufficientScopes as refusal:
                if len(self.body) > bounds.SMALL_BODY:
                    raise
                self.refusal = refusal
        share = NAMELESS if endpoint.takes_any_load else await self._share()
        CURRENT.set(share)
        return share

    async def _share(self) -> Share:
        call, signed = self.call, self.call.endpoint.share
        try:
            if signed is not None:
                query = validate_query(call.endpoint, self.query)
                return signed(self.services, call.params, query) or NAMELESS
            return NAMELESS if call.endpoint.scopes is None else (await call.caller()).share
        except ApiError:
            return NAMELESS


@asynccontextmanager
async def _place(arrival: _Arrival, noted: dict[str, str | int]) -> AsyncIterator[None]:
    """Holds the place of a checked call among those under way. Raises ApiError, StorageUnavailable."""
    call = arrival.call
    if call.endpoint.takes_any_load:
        await arrival.check()
        yield
    elif call.endpoint.waits:
        async with LOAD.poll(arrival.check) as call.ended:
            yield
    else:
        begun = time.monotonic()
        async with LOAD.call(arrival.check, len(arrival.body), arrival.services.end_polls) as waited:
            if waited:
                noted["waitedMilliseconds"] = round((time.monotonic() - begun) * 1000)
            yield


async def _in_full(
    refusal: InsufficientScopes, services: Services, call: Call, query: str, body: bytes
) -> InsufficientScopes:
    """Returns the refusal that names the exact scopes which the call's short body needs, if the handler gets as far as
    checking them.

    Other errors of the call are ignored, since the caller is refused in any case.
    """
    async with AsyncExitStack() as held:
        try:
            await _handled(services, call, query, body, held)
        except InsufficientScopes as named:
            return named
        except (ApiError, StorageUnavailable):
            pass
    return refusal


async def _handled(
    services: Services, call: Call, query: str, body: bytes, held: AsyncExitStack
) -> Answer | Mapping[str, Any]:
    """Checks URL parameters, query and body, and runs the handler. `held` keeps the body's memory reserved."""
    endpoint = call.endpoint
    validate_params(endpoint, call.params)
    call.query = validate_query(endpoint, query)
    if endpoint.takes_content:
        call.content = body
    else:
        if _is_parsed(call, body):
            call.raw_body = await held.enter_async_context(BODIES.parsed(body, services.memory))
        call.body = validate_payload(endpoint, call.raw_body, call.headers.get("content-type", ""))
    outcome = await endpoint.handler(services, call)
    if not call.is_authorised:  # a defect that any test of the endpoint shows, whoever calls
        raise RuntimeError(f"the handler of {endpoint.name} has not authorised its caller")
    return outcome


def _is_parsed(call: Call, body: bytes) -> bool:
    return bool(body) and not call.endpoint.takes_content and is_json(call.headers.get("content-type", ""))


def _authentication(
    router: Router, services: Services, match: Match, request: func.HttpRequest, headers: Mapping[str, str]
) -> Authenticate:
    async def authenticate(verifier: Verifier | None = None) -> Caller:
        route = router.prefix + match.endpoint.route
        targets = signed_targets(request.url, headers, route=route, params=match.params)
        chosen = verifier or services.authenticator
        try:
            return await chosen.caller(request.method, targets, headers, request.get_body())
        except MacMismatch:
            if not is_ambiguous(request.url, headers, match.params):
                raise
            raise InputError(
                "the signature cannot be verified: this platform decodes the path before the service sees it, and the "
                "path has characters that can be encoded in more ways than are tried"
            ) from None

    return authenticate


async def _refusal(error: ApiError, call: Call, body: bytes, services: Services) -> Answer:
    return error_answer(
        error,
        method=call.endpoint.name,
        params=call.params,
        payload=echo(body, await _echoed(services, call, body)) if _is_parsed(call, body) else {},
        now=services.runtime.now(),
    )


async def _echoed(services: Services, call: Call, body: bytes) -> Any:
    """Returns a short body as it was sent, also for a call that was refused before its body was parsed; None if it is
    not JSON."""
    if call.raw_body is not None or len(body) > MOST_ECHOED:
        return call.raw_body
    try:
        async with BODIES.parsed(body, services.memory) as payload:
            return payload
    except ApiError:
        return None


def _response(
    answer: Answer, request_headers: Mapping[str, str], invocation_id: str, *, is_head: bool
) -> func.HttpResponse:
    trace_id = request_headers.get("x-taskcluster-trace-id", "")
    headers = {
        **fixed_headers(process.SETTINGS.root_url),
        **(CORS if answer.is_shared else {}),
        "x-for-trace-id": trace_id if _TRACE_ID.fullmatch(trace_id) else invocation_id,
        "x-for-request-id": invocation_id,
        **answer.headers,
        "content-type": answer.content_type,
    }
    return func.HttpResponse(
        body=b"" if is_head else answer.body,
        status_code=answer.status,
        headers={name: header_value(value) for name, value in headers.items()},
    )
