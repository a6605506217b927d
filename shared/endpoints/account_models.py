"""Schemas of the auth API, as far as a deployment that stands alone needs it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, RootModel, StringConstraints

from shared.types import Closed, Date, Scope, Unique, Whole, optional

ClientId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!@/:.+|_-]+$")]
RoleId = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]+$")]
AccessToken = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{22,66}$")]
Description = Annotated[str, StringConstraints(max_length=10240)]


class CreateClientRequest(Closed):
    """What a client is for, how long it works, and what it may do. Without scopes an update leaves them as they are."""

    expires: Date
    deleteOnExpiration: bool = False
    description: Description
    scopes: Unique[Scope] = optional()


class ClientResponse(Closed):
    """A client, with what its scopes expand to."""

    clientId: ClientId
    expires: Date
    deleteOnExpiration: bool
    description: Description
    created: Date
    lastModified: Date
    lastDateUsed: Date
    lastRotated: Date
    scopes: Unique[Scope]
    expandedScopes: list[Scope]
    disabled: bool


class CreateClientResponse(ClientResponse):
    """A client with its access token, which can't be read again."""

    accessToken: AccessToken


class ListClientsResponse(Closed):
    """A page of clients."""

    clients: Unique[ClientResponse]
    continuationToken: str = optional()


class CreateRoleRequest(Closed):
    """What a role is for, and what it grants to whoever assumes it."""

    scopes: Unique[Scope]
    description: Description


class RoleResponse(Closed):
    """A role, with what assuming it expands to."""

    roleId: RoleId
    scopes: list[Scope]
    description: Description
    created: Date
    lastModified: Date
    expandedScopes: list[Scope]


class ListRolesResponse(RootModel[list[RoleResponse]]):
    """All roles."""


class ListRoles2Response(Closed):
    """A page of roles."""

    roles: list[RoleResponse]
    continuationToken: str = optional()


class ListRoleIdsResponse(Closed):
    """A page of the ids of roles."""

    roleIds: Unique[str]
    continuationToken: str = optional()


class AuthenticateHawkRequest(Closed):
    """A request that another service has received, for its signature to be checked."""

    method: Literal[
        "get",
        "post",
        "put",
        "head",
        "delete",
        "options",
        "trace",
        "copy",
        "lock",
        "mkcol",
        "move",
        "purge",
        "propfind",
        "proppatch",
        "unlock",
        "report",
        "mkactivity",
        "checkout",
        "merge",
        "m-search",
        "notify",
        "subscribe",
        "unsubscribe",
        "patch",
        "search",
        "connect",
    ]
    resource: str
    host: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,253}$"), Field(json_schema_extra={"format": "hostname"})
    ]
    port: Annotated[int, Whole, Field(ge=0, le=65535)]
    authorization: str = optional()
    sourceIp: str = optional()


class AuthSuccess(Closed):
    """Whose request it is, and what it may do until `expires`. `hash`: of the payload, if the request states one."""

    status: Literal["auth-success"]
    scopes: Unique[Scope]
    scheme: Literal["hawk"]
    hash: str = optional()
    clientId: ClientId
    expires: Date


class AuthFailed(Closed):
    """Credentials were given and do not hold."""

    status: Literal["auth-failed"]
    message: str


class NoAuth(Closed):
    """No credentials were given."""

    status: Literal["no-auth"]
    scheme: Literal["none"]
    scopes: Unique[Scope]
    expires: Date


class AuthenticateHawkResponse(RootModel[AuthSuccess | AuthFailed | NoAuth]):
    """What the signature of a request is worth."""


class Scopeset(Closed):
    """A set of scopes."""

    scopes: Unique[Scope]


class TestAuthenticateRequest(Closed):
    """What the test client is to have, and what the request is to need."""

    __test__ = False  # pytest: a schema, no test

    clientScopes: Unique[Scope] = Field(default=[])
    requiredScopes: Unique[Scope] = Field(default=[])


class TestAuthenticateResponse(Closed):
    """Who the request was found to be from, and with which scopes."""

    __test__ = False  # pytest: a schema, no test

    clientId: ClientId
    scopes: Unique[Scope]
