"""The HTTP function: from requests to endpoint calls and back; the raw path, the order of checks, the error envelope.

Deployed Functions decode `%2F` before they match routes, and allow a catch-all only at the end of a route. So routes of
the platform could not tell the contract's paths apart (design 8). One function has a catch-all route instead, and the
router finds the endpoint."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import azure.functions as func
from opentelemetry.trace import SpanKind

from functions import LONGEST_CALL, process
from functions.console import FOLDER, ConsoleSite, provider, sources
from functions.observation import observed
from functions.overload import Bodies, Load
from shared.api import answer as answers
from shared.api.answer import Answer
from shared.api.caller import Caller, Verifier
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
from shared.overview import endpoints as monitoring
from shared.queue.artifacts import object_endpoints as relay
from shared.store.interface import StorageUnavailable

log = logging.getLogger("taskcluster.http")

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]

_CALLS = (
    *(Router(api.prefix, api.endpoints) for api in apis.ALL),
    Router("", references.ENDPOINTS),
    Router("", monitoring.METRICS),
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
    method = "GET" if path in answers.SAME_AS and request.method != "HEAD" else request.method
    path = answers.SAME_AS.get(path, path)
    answer = answers.at_root(path, process.SETTINGS.app_version)
    if answer is None and request.method in ("GET", "HEAD") and SERVES_CALLS:
        answer = CONSOLE.answer(path, headers) or CONSOLE.unknown(path, headers)
    answer = answer or answers.not_found()
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

    async def authenticate(verifier: Verifier | None = None) -> Caller:
        route = router.prefix + match.endpoint.route
        targets = signed_targets(request.url, headers, route=route, params=match.params)
        try:
            return await (verifier or services.authenticator).caller(
                request.method, targets, headers, request.get_body()
            )
        except MacMismatch:
            if not is_ambiguous(request.url, headers, match.params):
                raise
            raise InputError(
                "the signature cannot be verified: this platform decodes the path before the service sees it, and the "
                "path has characters that can be encoded in more ways than are tried"
            ) from None

    call = Call(endpoint=match.endpoint, params=match.params, authenticate=authenticate, headers=headers)
    fields: dict[str, str | int] = {"requestId": context.invocation_id}
    if trace_id := headers.get("x-taskcluster-trace-id"):
        fields["traceId"] = trace_id
    fields |= {name: value for name, value in match.params.items() if name in _LOGGED}
    parent = context.trace_context.trace_parent or headers.get("traceparent")
    with observed(services.runtime, match.endpoint.name, SpanKind.SERVER, fields, parent=parent) as seen:
        answer = await _Handling(services, call, query, request.get_body(), seen.fields).in_time()
        seen.outcome = answer.outcome or str(answer.status)
        seen.failed = answer.status >= 500 and answer.outcome is None
        if call.known_caller is not None:
            seen.fields["clientId"] = call.known_caller.client_id or "anonymous"
    return answer


@dataclass
class _Handling:
    """A call while it is handled."""

    services: Services
    call: Call
    query: str
    body: bytes
    noted: dict[str, str | int]
    """Fields that the line of the call in the log gets."""
    refusal: InsufficientScopes | None = None
    """The refusal that is certain already. It is raised only after a short body was read, which may name more exact
    scopes."""

    async def in_time(self) -> Answer:
        """Answers the call, at the latest when nobody can receive the answer any more."""
        try:
            async with asyncio.timeout(LONGEST_CALL):
                return await self._answer()
        except TimeoutError:  # all others are answered
            name = self.call.endpoint.name
            log.error("%s took %.0f s", name, LONGEST_CALL, extra={"action": "call_too_long"})
            return await self._refused(ServiceUnavailable("the call took too long; send it again"))

    async def _answer(self) -> Answer:
        """Answers the call. What URL and headers tell is checked before the body is looked at (contract 1.5)."""
        call, endpoint = self.call, self.call.endpoint
        async with AsyncExitStack() as held:
            try:
                check_length(endpoint, call.headers)
                await held.enter_async_context(self._place())
                if self.refusal is not None:
                    raise await self._in_full(self.refusal)
                call.may_wait, call.pause = not LOAD.is_high, LOAD.falls
                outcome = await self._handled(held)
            except ApiError as error:
                return await self._refused(error)
            except StorageUnavailable as failure:
                log.warning("storage failed in %s: %s", endpoint.name, failure, extra={"action": "storage_unavailable"})
                return await self._refused(ServiceUnavailable("storage is not available; send the call again"))
            except Exception:
                incident = self.services.runtime.slugid()
                log.exception("%s failed, incident %s", endpoint.name, incident, extra={"action": "call_failed"})
                return await self._refused(InternalServerError(f"Internal error, incident {incident}"))
            answer = outcome if isinstance(outcome, Answer) else answers.json_answer(outcome)
            if not endpoint.may_be_packed or len(answer.body) < answers.PACKED_FROM:
                return answer
            if "gzip" not in call.headers.get("accept-encoding", ""):
                return replace(answer, headers={**answer.headers, **answers.VARIES})
            return await asyncio.to_thread(answers.pack, answer)  # it takes longer than other calls should wait

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Holds the place of the checked call among those under way. Raises ApiError, StorageUnavailable."""
        if self.call.endpoint.takes_any_load:
            await self._check()
            yield
        elif self.call.endpoint.waits:
            async with LOAD.poll(self._check) as self.call.ended:
                yield
        else:
            begun = time.monotonic()
            async with LOAD.call(self._check, len(self.body), self.services.end_polls) as waited:
                if waited:
                    self.noted["waitedMilliseconds"] = round((time.monotonic() - begun) * 1000)
                yield

    async def _check(self) -> Share:
        """Checks the body's size, the caller's credentials, and the scopes as far as they follow from the URL. Returns
        the share of the call. A call with invalid credentials has no name here; it is refused later, where credentials
        are needed."""
        CURRENT.set(NAMELESS)
        endpoint = self.call.endpoint
        if not endpoint.takes_content:
            check_size(len(self.body))
        if endpoint.authorised_by_url:
            await self.call.authorise()
        elif self._is_parsed:
            try:
                await self.call.authorise_ahead()
            except InsufficientScopes as refusal:
                if len(self.body) > bounds.SMALL_BODY:
                    raise
                self.refusal = refusal
        share = NAMELESS
        if not endpoint.takes_any_load:
            with suppress(ApiError):
                if endpoint.share is not None:
                    query = validate_query(endpoint, self.query)
                    share = endpoint.share(self.services, self.call.params, query) or NAMELESS
                elif endpoint.scopes is not None:
                    share = (await self.call.caller()).share
        CURRENT.set(share)
        return share

    async def _in_full(self, refusal: InsufficientScopes) -> InsufficientScopes:
        """Returns the refusal that names the exact scopes which the call's short body needs, if the handler gets as far
        as checking them. Other errors of the call are ignored, since the caller is refused in any case."""
        async with AsyncExitStack() as held:
            try:
                await self._handled(held)
            except InsufficientScopes as named:
                return named
            except (ApiError, StorageUnavailable):
                pass
        return refusal

    async def _handled(self, held: AsyncExitStack) -> Answer | Mapping[str, Any]:
        """Checks URL parameters, query and body, and runs the handler. `held` keeps the body's memory reserved."""
        call, endpoint = self.call, self.call.endpoint
        validate_params(endpoint, call.params)
        call.query = validate_query(endpoint, self.query)
        if endpoint.takes_content:
            call.content = self.body
        else:
            if self._is_parsed:
                call.raw_body = await held.enter_async_context(BODIES.parsed(self.body, self.services.memory))
            call.body = validate_payload(endpoint, call.raw_body, call.headers.get("content-type", ""))
        outcome = await endpoint.handler(self.services, call)
        if not call.is_authorised:  # a defect that any test of the endpoint shows, whoever calls
            raise RuntimeError(f"the handler of {endpoint.name} has not authorised its caller")
        return outcome

    @property
    def _is_parsed(self) -> bool:
        content_type = self.call.headers.get("content-type", "")
        return bool(self.body) and not self.call.endpoint.takes_content and is_json(content_type)

    async def _refused(self, error: ApiError) -> Answer:
        """Returns the answer that tells an error. It repeats a short body as it was sent, also if the call was refused
        before its body was parsed."""
        payload: Any = {}
        if self._is_parsed:
            parsed = self.call.raw_body
            if parsed is None and len(self.body) <= answers.MOST_ECHOED:
                with suppress(ApiError):  # it is not JSON
                    async with BODIES.parsed(self.body, self.services.memory) as parsed:
                        pass
            payload = answers.echo(self.body, parsed)
        name, now = self.call.endpoint.name, self.services.runtime.now()
        return answers.error_answer(error, method=name, params=self.call.params, payload=payload, now=now)


def _response(
    answer: Answer, request_headers: Mapping[str, str], invocation_id: str, *, is_head: bool
) -> func.HttpResponse:
    trace_id = request_headers.get("x-taskcluster-trace-id", "")
    headers = {
        **answers.fixed_headers(process.SETTINGS.root_url),
        **(answers.CORS if answer.is_shared else {}),
        "x-for-trace-id": trace_id if _TRACE_ID.fullmatch(trace_id) else invocation_id,
        "x-for-request-id": invocation_id,
        **answer.headers,
        "content-type": answer.content_type,
    }
    return func.HttpResponse(
        body=b"" if is_head else answer.body,
        status_code=answer.status,
        headers={name: answers.header_value(value) for name, value in headers.items()},
    )
