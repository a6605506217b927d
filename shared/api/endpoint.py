"""An endpoint, and one call of it as its handler sees it. An endpoint is one row of the one table behind routes,
references and the OpenAPI document (design 8)."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypedDict, Unpack, cast, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeVar

from shared.api.answer import Answer
from shared.api.caller import Authenticate, Caller
from shared.api.scopes import Params, Template, certainly_missing, holds, is_optional, params_of, render
from shared.base.frozen import dataclass
from shared.base.shares import Share
from shared.base.types import LONGEST_PATH, OPAQUE, PATH_PATTERN, SLUGID_PATTERN, Stability

ID_PATTERN = r"^[a-zA-Z0-9-_]{1,38}$"
INDEX_PATTERN = rf"^(?=.{{1,{LONGEST_PATH}}}$){PATH_PATTERN.removeprefix('^')}"
PARAMETERS: Mapping[str, str] = {
    "taskId": SLUGID_PATTERN,
    "taskGroupId": SLUGID_PATTERN,
    "runId": r"^[1-9]*[0-9]+$",
    "taskQueueId": r"^[a-zA-Z0-9-_]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?$",
    "provisionerId": ID_PATTERN,
    "workerType": ID_PATTERN,
    "workerGroup": ID_PATTERN,
    "workerId": ID_PATTERN,
    "name": r"^[\x20-\x7e]+$",
    "indexPath": INDEX_PATTERN,
    "namespace": INDEX_PATTERN,
    "clientId": r"^[A-Za-z0-9!@/:.+|_-]+$",
    "roleId": r"^[\x20-\x7e]+$",
    "queueName": r"^[a-z-]{1,63}$",
    "entityType": r"^(client|role|secret|hook|worker-pool)$",
    "auditedType": r"^(client|role|index|internal-queue)$",
    "entityId": r"^[\x20-\x7e]+$",
}
"""Pattern of every URL parameter (contract 0.1)."""

PAGING: Mapping[str, str] = {"continuationToken": r".+", "limit": r"^[0-9]+$"}
"""Query options of endpoints that answer pages (contract 13)."""

Services = TypeVar("Services", contravariant=True, default=Any)
"""The services that a handler uses: those of its context. The services of the whole process are a subtype."""
S = TypeVar("S", default=Any)
R = TypeVar("R", bound="Awaitable[Answer | Mapping[str, Any]]")
Json = Mapping[str, Any]
"""The JSON object of an answer."""
Handler = Callable[[Services, "Call"], Awaitable[Answer | Mapping[str, Any]]]
"""Calls one use-case; returns the JSON object of a 200, or an Answer."""
Method = Literal["GET", "POST", "PUT", "DELETE"]
FindShare = Callable[[Services, Mapping[str, str], Mapping[str, str]], Share | None]


@dataclass(frozen=True, kw_only=True)
class Endpoint(Generic[Services]):
    """One endpoint. `route` is below /api/<service>/<version>; `scopes` is the template as references publish it."""

    name: str
    method: Method
    route: str
    handler: Handler[Services] = field(repr=False)
    title: str
    description: str
    category: str
    scopes: Template | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    input: type[BaseModel] | None = None
    output: type[BaseModel] | None = None
    success: int = 200
    """HTTP status of the normal answer; 204 has no body."""
    takes_content: bool = False
    """Whether the body is arbitrary content of any size instead of JSON."""
    takes_any_load: bool = False
    """Whether the endpoint answers even when the process is overloaded."""
    waits: bool = False
    """Whether the endpoint is a long poll. Long polls are ended first when the process is overloaded."""
    share: FindShare[Services] | None = field(default=None, repr=False)
    """Finds out in whose name a call by a signed URL is made, from the parameters of its path and of its query."""
    stability: Stability = "stable"
    authorised_late: bool = False
    """Whether the handler checks the scopes, although the URL alone would do (contract 1.5, H)."""
    unlisted: bool = False
    """Whether references omit the endpoint, since it is a variant of one that they list."""
    scopes_of_anonymous: bool = False
    """Whether only callers without credentials need the scopes. All of these scopes must follow from the URL."""
    raw_slash: bool = False
    """Whether the taskQueueId may also be written with a bare slash (contract 1.4)."""
    is_long: bool = False
    """Whether the answer may be long, though it has no pages."""

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the URL parameters, in the order of the route."""
        return tuple(re.findall(r"<([^>]+)>", self.route))

    @property
    def input_schema(self) -> str | None:
        """Returns the name of the published schema of the body, if there is one."""
        return schema_name(self.input)

    @property
    def output_schema(self) -> str | None:
        """Returns the name of the published schema of the answer, if there is one."""
        return schema_name(self.output)

    @property
    def may_be_packed(self) -> bool:
        """Whether the answer is compressed for callers that accept it. Lists for people are, answers to workers are
        not."""
        return self.is_long or "continuationToken" in self.query

    @cached_property
    def opaque(self) -> frozenset[str]:
        """Properties of the body that hold free-form objects, which are not validated."""
        fields = {} if self.input is None else self.input.model_fields
        return frozenset(name for name, field in fields.items() if OPAQUE in field.metadata)

    @cached_property
    def authorised_by_url(self) -> bool:
        """Whether everything that the scope expression needs is in the URL: then authorisation comes before any
        other check (contract 1.5, U)."""
        known = self.scopes is not None and params_of(self.scopes) <= set(self.params)
        return known and not self.authorised_late


class _Properties(TypedDict, Generic[S], total=False):
    """Properties of an endpoint that may be left out."""

    category: str
    description: str
    scopes: Template
    query: Mapping[str, str]
    input: type[BaseModel]
    output: type[BaseModel]
    success: int
    takes_content: bool
    takes_any_load: bool
    waits: bool
    share: FindShare[S]
    stability: Stability
    authorised_late: bool
    unlisted: bool
    scopes_of_anonymous: bool
    raw_slash: bool
    is_long: bool


class Endpoints(list[Endpoint[S]]):
    """The endpoints of a family, in the order in which their routes are tried. As a decorator it adds the one that a
    handler answers. Its description is the handler's docstring, and the model of its answer is named beside the type
    that the handler returns: `Annotated[Json, TaskStatusResponse]`. One of a page has the options of pages."""

    def __init__(self, category: str, /, **common: Unpack[_Properties[S]]) -> None:
        """Takes in `common` the properties that each endpoint of the family has unless it sets them itself."""
        super().__init__()
        self._common: Any = {"category": category, **common}

    def __call__(
        self, name: str, target: str, title: str, **others: Unpack[_Properties[S]]
    ) -> Callable[[Callable[[S, Call], R]], Callable[[S, Call], R]]:
        """Returns a decorator that makes a function an endpoint. `target`: method and route, with a space between."""

        def add(handler: Callable[[S, Call], R]) -> Callable[[S, Call], R]:
            method, _, route = target.partition(" ")
            given: Any = {"description": " ".join((handler.__doc__ or "").split()), **self._common}
            returned: Any = inspect.get_annotations(handler, eval_str=True)["return"]
            if get_origin(returned) is Annotated:
                output = given["output"] = get_args(returned)[1]
                if "continuationToken" in output.model_fields:
                    given["query"] = PAGING
            given |= others
            self.append(
                Endpoint(name=name, method=cast(Method, method), route=route, handler=handler, title=title, **given)
            )
            return handler

        return add


_NAMED_OTHERWISE: Mapping[str, str] = {
    "ClientResponse": "get-client-response",
    "EntityHistoryResponse": "get-entity-history-response",
    "ListTaskQueuesResponse": "list-taskqueues-response",
    "ListWorkerTypesResponse": "list-workertypes-response",
    "RoleResponse": "get-role-response",
    "TaskQueueResponse": "taskqueue-response",
    "TaskResponse": "task",
    "UpdateWorkerTypeRequest": "update-workertype-request",
    "WorkerTypeResponse": "workertype-response",
}
"""Models whose published schemas do not follow the rule of `schema_name`."""
_UNPUBLISHED = frozenset({"PingResponse", "HeartbeatResponse", "VersionResponse"})
"""Models of answers for which upstream publishes no schema."""
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def schema_name(model: type[BaseModel] | None) -> str | None:
    """Returns the file name of a model's published schema, without its ending: `create-task-request` of
    CreateTaskRequest."""
    if model is None or model.__name__ in _UNPUBLISHED:
        return None
    return _NAMED_OTHERWISE.get(model.__name__) or _CAPITAL.sub("-", model.__name__).lower()


Model = TypeVar("Model", bound=BaseModel)


async def at_once() -> None:
    """Returns at once: the default of `Call.pause`, with which a call does not pause."""


@dataclass
class Call:
    """An endpoint with its URL parameters, query options and body, all validated, and who calls."""

    endpoint: Endpoint
    params: Mapping[str, str]
    authenticate: Authenticate = field(repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    body: BaseModel | None = None
    raw_body: Any = None
    """The JSON body as parsed, also of endpoints without a schema."""
    content: bytes = field(default=b"", repr=False)
    """The body of an endpoint that takes content."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    may_wait: bool = True
    """Whether a long poll may wait for work. If the process is overloaded, it looks for work once instead."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Event that is set if a long poll has to end before its time."""
    pause: Callable[[], Awaitable[object]] = field(default=at_once, repr=False)
    """Awaited by a long poll that found no work and may not wait, before its empty answer."""
    known_caller: Caller | None = None
    """The caller, if the request has been authenticated."""
    _has_authorised: bool = False

    def payload(self, model: type[Model]) -> Model:
        """Returns the validated body, which must be of the given model: the one in the endpoint's row."""
        assert isinstance(self.body, model), f"{self.endpoint.name} has no such body"
        return self.body

    @property
    def run_id(self) -> int:
        """The number of a run. A number with very many digits becomes one that no run has."""
        digits = self.params["runId"].lstrip("0") or "0"
        return int(digits[:9])

    @property
    def is_authorised(self) -> bool:
        """Whether the caller was found to have what the endpoint asks for, if it asks for scopes at all."""
        return self.endpoint.scopes is None or self._has_authorised

    async def caller(self) -> Caller:
        """Returns the caller. Raises AuthenticationFailed."""
        if self.known_caller is None:
            self.known_caller = await self.authenticate()
        return self.known_caller

    async def authorise_ahead(self) -> None:
        """Refuses callers early: those who lack scopes that are needed whatever the body says. Of the scope expression,
        only the parameters of the URL are filled in. Raises AuthenticationFailed, InsufficientScopes."""
        if self.endpoint.scopes is not None:
            caller = await self.caller()
            lacking = certainly_missing(caller.scopes, self.endpoint.scopes, self.params)
            if lacking is not None:
                caller.require(lacking)

    async def authorise(self, params: Params | None = None) -> None:
        """Requires the endpoint's scope expression, rendered with these parameters (default: those of the URL). Raises
        AuthenticationFailed, InsufficientScopes. An expression that renders to nothing needs no credentials."""
        if self.endpoint.scopes is None:
            return
        template, given = self.endpoint.scopes, {**self.params, **(params or {})}
        if is_optional(template) or not holds((await self.caller()).scopes, template, given):
            expression = render(template, given)
            if expression is not None:
                caller = await self.caller()
                if caller.client_id is None or not self.endpoint.scopes_of_anonymous:
                    caller.require(expression)
        self._has_authorised = True

    def allow(self) -> None:
        """Marks the call as authorised without any scopes, because its answer is public."""
        self._has_authorised = True

    def authorise_with(self, param: str) -> Callable[[Sequence[str]], Awaitable[None]]:
        """Returns a function that authorises with values of `param` which only the use case determines, such as the
        scopes that a role would grant. That function raises AuthenticationFailed, InsufficientScopes."""

        async def authorise(values: Sequence[str]) -> None:
            await self.authorise({param: list(values)})

        return authorise
