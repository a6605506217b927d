"""Functions requests to endpoint calls and back: the raw path, the order of checks, the error envelope."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import azure.functions as func

from functions import process
from functions.observation import observed
from shared.api.answer import Answer, error_answer, fixed_headers, json_answer, not_found
from shared.api.call import Authenticate, Call
from shared.api.endpoint import Endpoint
from shared.api.router import Match, Router
from shared.api.site import at_root
from shared.api.validation import parse_body, validate_params, validate_payload, validate_query
from shared.auth.authenticate import Authenticator, Caller
from shared.auth.targets import raw_target, signed_targets, target_of
from shared.errors import ApiError, InternalServerError, ServiceUnavailable
from shared.services import Services
from shared.storage.interface import StorageUnavailable

log = logging.getLogger("taskcluster.http")

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]

_TRACE_ID = re.compile(r"[\x21-\x7e]{1,128}")

_LOGGED = frozenset({"taskId", "runId", "taskGroupId", "taskQueueId", "workerGroup", "workerId"})
"""URL parameters that every line of a call names."""

Handler = Callable[[Services, Call], Awaitable[Answer | Mapping[str, Any]]]
"""Calls one use-case; answers the JSON object of a 200, or an Answer."""


@dataclass(frozen=True)
class Api:
    """One API of the deployment: its routes and who handles them."""

    router: Router
    handlers: Mapping[str, Handler]

    @classmethod
    def of(cls, prefix: str, endpoints: Sequence[Endpoint], *handlers: Mapping[str, Handler]) -> Api:
        """Raises ValueError unless every endpoint has its handler, and every handler its endpoint."""
        joined = {name: handler for family in handlers for name, handler in family.items()}
        names = {endpoint.name for endpoint in endpoints}
        if names != joined.keys():
            raise ValueError(f"endpoints without handler or the reverse: {sorted(names ^ joined.keys())}")
        return cls(Router(prefix, endpoints), joined)


async def respond(apis: Sequence[Api], request: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Answers a request with the first API that knows its path."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    target = raw_target(request.url, headers) or target_of(request.url)
    path, _, query = target.partition("?")
    answer = at_root(path, process.SETTINGS.app_version) or not_found()
    for api in apis:
        match = api.router.find(request.method, path)
        if match is not None:
            answer = await _observed_answer(api, match, request, headers, query, context)
            break
        if request.method == "OPTIONS" and (methods := api.router.methods(path)):
            allow = ", ".join(methods)
            answer = Answer(body=allow.encode(), content_type="text/html; charset=utf-8", headers={"allow": allow})
            break
    return _response(answer, headers, context.invocation_id, is_head=request.method == "HEAD")


async def _observed_answer(
    api: Api, match: Match, request: func.HttpRequest, headers: Mapping[str, str], query: str, context: func.Context
) -> Answer:
    services = await process.services()
    call = Call(
        endpoint=match.endpoint,
        params=match.params,
        authenticate=_authentication(api, services, match, request, headers),
        headers=headers,
    )
    fields: dict[str, str | int] = {"requestId": context.invocation_id}
    if trace_id := headers.get("x-taskcluster-trace-id"):
        fields["traceId"] = trace_id
    fields |= {name: value for name, value in match.params.items() if name in _LOGGED}
    parent = context.trace_context.trace_parent or headers.get("traceparent")
    with observed(services.runtime, match.endpoint.name, "server", fields, parent=parent) as seen:
        answer = await _answer(api, services, call, match, request, query)
        seen.outcome, seen.failed = str(answer.status), answer.status >= 500
        if call.known_caller is not None:
            seen.fields["clientId"] = call.known_caller.client_id or "anonymous"
    return answer


async def _answer(
    api: Api, services: Services, call: Call, match: Match, request: func.HttpRequest, query: str
) -> Answer:
    """One call, its checks in the order of contract 1.5."""
    endpoint, payload = match.endpoint, None
    try:
        content_type = call.headers.get("content-type", "")
        if endpoint.takes_content:
            call.content = request.get_body()
        else:
            call.raw_body = payload = parse_body(content_type, request.get_body())
        if endpoint.authorised_by_url:
            await call.authorise()
        validate_params(endpoint, match.params)
        call.query = validate_query(endpoint, query)
        call.body = validate_payload(endpoint, payload, content_type)
        outcome = await api.handlers[endpoint.name](services, call)
    except ApiError as error:
        return _refusal(error, match, payload, services)
    except StorageUnavailable as failure:
        log.warning("storage failed in %s: %s", endpoint.name, failure, extra={"action": "storage_unavailable"})
        return _refusal(ServiceUnavailable("storage is not available; send the call again"), match, payload, services)
    except Exception:
        incident = services.runtime.slugid()
        log.exception("%s failed, incident %s", endpoint.name, incident, extra={"action": "call_failed"})
        return _refusal(InternalServerError(f"Internal error, incident {incident}"), match, payload, services)
    return outcome if isinstance(outcome, Answer) else json_answer(outcome)


def _authentication(
    api: Api, services: Services, match: Match, request: func.HttpRequest, headers: Mapping[str, str]
) -> Authenticate:
    async def authenticate(authenticator: Authenticator | None = None) -> Caller:
        route = api.router.prefix + match.endpoint.route
        targets = signed_targets(request.url, headers, route=route, params=match.params)
        chosen = authenticator or services.authenticator
        return await chosen.caller(request.method, targets, headers, request.get_body())

    return authenticate


def _refusal(error: ApiError, match: Match, payload: Any, services: Services) -> Answer:
    return error_answer(
        error,
        method=match.endpoint.name,
        params=match.params,
        payload=payload,
        now=services.runtime.now(),
    )


def _response(
    answer: Answer, request_headers: Mapping[str, str], invocation_id: str, *, is_head: bool
) -> func.HttpResponse:
    headers = {
        **fixed_headers(process.SETTINGS.root_url),
        "x-for-trace-id": _trace_id(request_headers) or invocation_id,
        "x-for-request-id": invocation_id,
        **answer.headers,
        "content-type": answer.content_type,
    }
    return func.HttpResponse(body=b"" if is_head else answer.body, status_code=answer.status, headers=headers)


def _trace_id(request_headers: Mapping[str, str]) -> str | None:
    """The caller's own id of what the request is part of, if it can stand in a header."""
    found = request_headers.get("x-taskcluster-trace-id", "")
    return found if _TRACE_ID.fullmatch(found) else None
