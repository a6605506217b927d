"""One call of an endpoint, as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from shared.api.answer import Answer
from shared.api.endpoint import Endpoint
from shared.auth.authenticate import Authenticator, Caller
from shared.auth.foresight import hopeless
from shared.auth.scopes import Params, render
from shared.services import Services

Model = TypeVar("Model", bound=BaseModel)


class Authenticate(Protocol):
    """Finds out who sent the request at hand."""

    async def __call__(self, authenticator: Authenticator | None = None) -> Caller:
        """By the deployment's authenticator, or another one. Raises AuthenticationFailed, StorageUnavailable."""
        ...


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
    _caller: Caller | None = None

    def payload(self, model: type[Model]) -> Model:
        """The body, of the type that the endpoint's row names."""
        assert isinstance(self.body, model), f"{self.endpoint.name} has no such body"
        return self.body

    @property
    def run_id(self) -> int:
        """The number of a run; one that no run has stands for those with very many digits."""
        digits = self.params["runId"].lstrip("0") or "0"
        return int(digits[:9])

    @property
    def known_caller(self) -> Caller | None:
        """Who calls, if that had to be found out."""
        return self._caller

    async def caller(self) -> Caller:
        """Who calls. Raises AuthenticationFailed."""
        if self._caller is None:
            self._caller = await self.authenticate()
        return self._caller

    async def authorise_ahead(self) -> None:
        """Refuses whom no body could help: by the endpoint's scope expression, as far as the URL fills it in.

        Raises AuthenticationFailed, InsufficientScopes.
        """
        if self.endpoint.scopes is not None:
            caller = await self.caller()
            lacking = hopeless(caller.scopes, self.endpoint.scopes, self.params)
            if lacking is not None:
                caller.require(lacking)

    async def authorise(self, params: Params | None = None) -> None:
        """The endpoint's scope expression with these parameters, by default those of the URL.

        Raises AuthenticationFailed, InsufficientScopes. An expression that renders to nothing is satisfied unseen.
        """
        if self.endpoint.scopes is None:
            return
        expression = render(self.endpoint.scopes, {**self.params, **(params or {})})
        if expression is not None:
            (await self.caller()).require(expression)


Handler = Callable[[Services, Call], Awaitable[Answer | Mapping[str, Any]]]
"""Calls one use-case; answers the JSON object of a 200, or an Answer."""
