"""Endpoints of the auth API on clients and roles: models, rows and handlers (contract 11.5)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from pydantic import RootModel, StringConstraints

from shared.api.answer import NO_CONTENT, Answer, json_answer
from shared.api.endpoint import PAGING, Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import continued, limit_of, start_of
from shared.auth.audit import NOBODY, Audit, Entry, Subject
from shared.auth.clients.accounts import ClientAccounts, CreateClientRequest, Description
from shared.auth.keyring import TableKeyring
from shared.auth.openid import SignIn, WorkloadSignIn
from shared.auth.roles.accounts import CreateRoleRequest, RoleAccounts
from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.base.types import Closed, Date, Scope, Unique, page_model
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class AuthServices:
    """The services that the endpoints of the auth API call."""

    settings: Settings
    runtime: Runtime
    audit: Audit
    keyring: TableKeyring
    clients: ClientAccounts
    roles: RoleAccounts
    sign_in: SignIn | None
    """Sign-in of people; None if no OpenID Connect provider is set up."""
    workload_sign_in: WorkloadSignIn | None
    """Sign-in of workloads; None if no issuer of their ID tokens is set up."""


ClientId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!@/:.+|_-]+$")]

AccessToken = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{22,66}$")]


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


ListClientsResponse = page_model("ListClientsResponse", "A page of clients.", clients=Unique[ClientResponse])


# Routes with a word after the id come first: an id may hold slashes, which the platform may have decoded.
CLIENTS = Endpoints[AuthServices]("Clients")


@CLIENTS(
    "listClients",
    "GET /clients/",
    "List Clients",
    scopes="auth:list-clients",
    query={"prefix": r"^[A-Za-z0-9!@/:.+|_-]+$", **PAGING},
)
async def list_clients(services: AuthServices, call: Call) -> Annotated[Json, ListClientsResponse]:
    """Returns a page of the clients, or of those whose clientId starts with `prefix`. A page may be short or empty
    while there are more: go on until there is no `continuationToken`."""
    limit = limit_of(call.query)
    if limit == 0:
        return {"clients": []}
    prefix = call.query.get("prefix", "")
    clients, resume = await services.clients.client_page(prefix, start=start_of(call.query), limit=limit)
    return {"clients": clients, **continued(resume)}


@CLIENTS("client", "GET /clients/<clientId>", "Get Client", scopes="auth:get-client:<clientId>")
async def client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Returns the properties of a client, without its access token."""
    return await services.clients.find_client(call.params["clientId"])


@CLIENTS(
    "createClient",
    "PUT /clients/<clientId>",
    "Create Client",
    scopes=all_of("auth:create-client:<clientId>", for_each("scope", "scopes", "<scope>")),
    input=CreateClientRequest,
)
async def create_client(services: AuthServices, call: Call) -> Annotated[Json, CreateClientResponse]:
    """Creates a client and returns its `accessToken`, which can't be read again. The caller must have the scopes that
    the client is given. If the client exists already the call fails, unless it repeats the call that created it, by the
    same caller within 15 minutes."""
    request = call.payload(CreateClientRequest)
    client_id, authorise = call.params["clientId"], call.authorise_with("scopes")
    async with _noted(services, call, "client", "created", begins=False) as entry:
        creator = (await call.caller()).client_id or NOBODY
        return await services.clients.make_client(client_id, request, entry.after(authorise), entry, creator=creator)


@CLIENTS(
    "resetAccessToken",
    "POST /clients/<clientId>/reset",
    "Reset `accessToken`",
    scopes="auth:reset-access-token:<clientId>",
)
async def reset_access_token(services: AuthServices, call: Call) -> Annotated[Json, CreateClientResponse]:
    """Gives a client a new `accessToken` and returns it. The old one, and credentials that were issued with it, are
    refused within a minute."""
    async with _noted(services, call, "client", "access token reset") as entry:
        return await services.clients.reset_access_token(call.params["clientId"], entry)


@CLIENTS("enableClient", "POST /clients/<clientId>/enable", "Enable Client", scopes="auth:enable-client:<clientId>")
async def enable_client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Enables a disabled client. No effect if it is enabled."""
    async with _noted(services, call, "client", "client enabled") as entry:
        return await services.clients.set_disabled(call.params["clientId"], False, entry)


@CLIENTS("disableClient", "POST /clients/<clientId>/disable", "Disable Client", scopes="auth:disable-client:<clientId>")
async def disable_client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Disables a client: its calls, and those with credentials that it issued, are refused within a minute. No effect
    if it is disabled."""
    async with _noted(services, call, "client", "client disabled") as entry:
        return await services.clients.set_disabled(call.params["clientId"], True, entry)


@CLIENTS(
    "updateClient",
    "POST /clients/<clientId>",
    "Update Client",
    scopes=all_of("auth:update-client:<clientId>", for_each("scope", "scopesAdded", "<scope>")),
    input=CreateClientRequest,
)
async def update_client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Changes a client; its id and `accessToken` stay. The caller must have the scopes that are added. Without `scopes`
    the client keeps those that it has."""
    request = call.payload(CreateClientRequest)
    client_id, authorise = call.params["clientId"], call.authorise_with("scopesAdded")
    async with _noted(services, call, "client", "updated", begins=False) as entry:
        return await services.clients.update(client_id, request, entry.after(authorise), entry, read=_read_at(call))


@CLIENTS(
    "deleteClient", "DELETE /clients/<clientId>", "Delete Client", scopes="auth:delete-client:<clientId>", success=204
)
async def delete_client(services: AuthServices, call: Call) -> Answer:
    """Removes a client. It succeeds also when there is none."""
    async with _noted(services, call, "client", "deleted") as entry:
        await services.clients.remove_client(call.params["clientId"], entry)
    return NO_CONTENT


RoleId = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]+$")]


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


ListRoles2Response = page_model("ListRoles2Response", "A page of roles.", roles=list[RoleResponse])
ListRoleIdsResponse = page_model("ListRoleIdsResponse", "A page of the ids of roles.", roleIds=Unique[str])

ROLES = Endpoints[AuthServices]("Roles")


@ROLES("listRoles", "GET /roles/", "List Roles (no pagination)", scopes="auth:list-roles")
async def list_roles(services: AuthServices, call: Call) -> Annotated[Answer, ListRolesResponse]:
    """Returns all roles, each with its expanded scopes."""
    return json_answer(await services.roles.all())  # an array, not an object


@ROLES("listRoles2", "GET /roles2/", "List Roles", scopes="auth:list-roles", query=PAGING)
async def list_roles2(services: AuthServices, call: Call) -> Annotated[Json, ListRoles2Response]:
    """Returns a page of the roles, each with what it expands to; without `limit` all of them. A page may be short while
    there are more: go on until there is no `continuationToken`."""
    roles, resume = await services.roles.role_page(start_of(call.query), _limit_of_roles(call))
    return {"roles": roles, **continued(resume)}


@ROLES("listRoleIds", "GET /roleids/", "List Role IDs", scopes="auth:list-roles", query=PAGING)
async def list_role_ids(services: AuthServices, call: Call) -> Annotated[Json, ListRoleIdsResponse]:
    """Returns a page of the ids of roles; without `limit` all of them."""
    ids, resume = await services.roles.ids(start_of(call.query), _limit_of_roles(call))
    return {"roleIds": ids, **continued(resume)}


@ROLES("role", "GET /roles/<roleId>", "Get Role", scopes="auth:get-role:<roleId>")
async def role(services: AuthServices, call: Call) -> Annotated[Json, RoleResponse]:
    """Returns one role, with its expanded scopes."""
    return await services.roles.find_role(call.params["roleId"])


@ROLES(
    "createRole",
    "PUT /roles/<roleId>",
    "Create Role",
    scopes=all_of("auth:create-role:<roleId>", for_each("scope", "scopes", "<scope>")),
    input=CreateRoleRequest,
)
async def create_role(services: AuthServices, call: Call) -> Annotated[Json, RoleResponse]:
    """Creates a role. The caller must have the scopes that it grants. If the role exists already the call fails, unless
    it is the same one. Roles must not form a cycle."""
    request = call.payload(CreateRoleRequest)
    role_id, authorise = call.params["roleId"], call.authorise_with("scopes")
    async with _noted(services, call, "role", "created", begins=False) as entry:
        return await services.roles.make_role(role_id, request, entry.after(authorise), entry)


@ROLES(
    "updateRole",
    "POST /roles/<roleId>",
    "Update Role",
    scopes=all_of("auth:update-role:<roleId>", for_each("scope", "scopesAdded", "<scope>")),
    input=CreateRoleRequest,
)
async def update_role(services: AuthServices, call: Call) -> Annotated[Json, RoleResponse]:
    """Changes a role. The caller must have the scopes that are added, but not those that the role had. Roles must not
    form a cycle."""
    request = call.payload(CreateRoleRequest)
    role_id, authorise = call.params["roleId"], call.authorise_with("scopesAdded")
    async with _noted(services, call, "role", "updated", begins=False) as entry:
        return await services.roles.update(role_id, request, entry.after(authorise), entry, read=_read_at(call))


@ROLES("deleteRole", "DELETE /roles/<roleId>", "Delete Role", scopes="auth:delete-role:<roleId>", success=204)
async def delete_role(services: AuthServices, call: Call) -> Answer:
    """Removes a role. It succeeds also when there is none."""
    async with _noted(services, call, "role", "deleted") as entry:
        await services.roles.remove_role(call.params["roleId"], entry)
    return NO_CONTENT


def _limit_of_roles(call: Call) -> int | None:
    """Returns the limit of a page of roles. None, for no limit or 0, means all roles: as upstream, unlike other
    listings."""
    return limit_of(call.query) or None if "limit" in call.query else None


def _noted(
    services: AuthServices, call: Call, kind: str, action: str, *, begins: bool = True
) -> AbstractAsyncContextManager[Entry]:
    return services.audit.entry_of(call, Subject(kind, call.params[f"{kind}Id"]), action, begins=begins)


def _read_at(call: Call) -> str:
    """Returns the `lastModified` that the caller has read, from the header If-Match; empty without it, or for `*`."""
    return call.headers.get("if-match", "").removeprefix("W/").strip('"*')
