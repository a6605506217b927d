"""What an endpoint is: one row of the one table behind routes, references and the OpenAPI document (design 8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pydantic import BaseModel

from shared.auth.scopes import Template, params_of
from shared.types import OPAQUE, SLUGID_PATTERN

Stability = Literal["stable", "experimental", "deprecated"]

ID_PATTERN = r"^[a-zA-Z0-9-_]{1,38}$"
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
    "clientId": r"^[A-Za-z0-9!@/:.+|_-]+$",
    "roleId": r"^[\x20-\x7e]+$",
}
"""Pattern of every URL parameter (contract 0.1)."""

PAGING: Mapping[str, str] = {"continuationToken": r".+", "limit": r"^[0-9]+$"}
"""Query options of endpoints that answer pages (contract 13)."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One endpoint. `route` is below /api/<service>/<version>; `scopes` is the template as references publish it."""

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    route: str
    title: str
    description: str
    category: str
    scopes: Template | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    input: type[BaseModel] | None = None
    input_schema: str | None = None
    """File name of the published schema, without its ending."""
    output: type[BaseModel] | None = None
    output_schema: str | None = None
    success: int = 200
    """HTTP status of the normal answer; 204 has no body."""
    takes_content: bool = False
    """Whether the body is content of any kind and size, and no JSON."""
    takes_any_load: bool = False
    """Whether it is answered however much the process has to do."""
    waits: bool = False
    """Whether it is a long poll: the first to be given up when the process has too much to do."""
    stability: Stability = "stable"
    raw_slash: bool = False
    """Whether the taskQueueId may also be written with a bare slash (contract 1.4)."""

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the URL parameters, in the order of the route."""
        return tuple(re.findall(r"<([^>]+)>", self.route))

    @cached_property
    def opaque(self) -> frozenset[str]:
        """Properties of the body that hold any object, and are passed on without being looked into."""
        fields = {} if self.input is None else self.input.model_fields
        return frozenset(name for name, field in fields.items() if OPAQUE in field.metadata)

    @property
    def authorised_by_url(self) -> bool:
        """Whether everything that the scope expression needs is in the URL: then authorisation comes before any
        other check (contract 1.5, U)."""
        return self.scopes is not None and params_of(self.scopes) <= set(self.params)
