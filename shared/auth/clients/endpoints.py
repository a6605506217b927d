"""Endpoints of the auth API on clients: models, rows and handlers."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from pydantic import StringConstraints

from shared.api.answer import NO_CONTENT, Answer
from shared.api.endpoint import PAGING, Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import continued, limit_of, start_of
from shared.auth.audit import NOBODY, Entry, Subject
from shared.auth.clients.accounts import CreateClientRequest, Description
from shared.auth.services import AuthServices
from shared.base.types import Closed, Date, Scope, Unique, page_model

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
ENDPOINTS = Endpoints[AuthServices]("Clients")


@ENDPOINTS(
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
    clients, resume = await services.clients.page(prefix, start=start_of(call.query), limit=limit)
    return {"clients": clients, **continued(resume)}


@ENDPOINTS("client", "GET /clients/<clientId>", "Get Client", scopes="auth:get-client:<clientId>")
async def client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Returns the properties of a client, without its access token."""
    return await services.clients.get(call.params["clientId"])


@ENDPOINTS(
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
    async with _noted(services, call, "created", begins=False) as entry:
        creator = (await call.caller()).client_id or NOBODY
        return await services.clients.create(client_id, request, entry.after(authorise), entry, creator=creator)


@ENDPOINTS(
    "resetAccessToken",
    "POST /clients/<clientId>/reset",
    "Reset `accessToken`",
    scopes="auth:reset-access-token:<clientId>",
)
async def reset_access_token(services: AuthServices, call: Call) -> Annotated[Json, CreateClientResponse]:
    """Gives a client a new `accessToken` and returns it. The old one, and credentials that were issued with it, are
    refused within a minute."""
    async with _noted(services, call, "access token reset") as entry:
        return await services.clients.reset_access_token(call.params["clientId"], entry)


@ENDPOINTS("enableClient", "POST /clients/<clientId>/enable", "Enable Client", scopes="auth:enable-client:<clientId>")
async def enable_client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Enables a disabled client. No effect if it is enabled."""
    async with _noted(services, call, "client enabled") as entry:
        return await services.clients.set_disabled(call.params["clientId"], False, entry)


@ENDPOINTS(
    "disableClient", "POST /clients/<clientId>/disable", "Disable Client", scopes="auth:disable-client:<clientId>"
)
async def disable_client(services: AuthServices, call: Call) -> Annotated[Json, ClientResponse]:
    """Disables a client: its calls, and those with credentials that it issued, are refused within a minute. No effect
    if it is disabled."""
    async with _noted(services, call, "client disabled") as entry:
        return await services.clients.set_disabled(call.params["clientId"], True, entry)


@ENDPOINTS(
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
    async with _noted(services, call, "updated", begins=False) as entry:
        return await services.clients.update(client_id, request, entry.after(authorise), entry, read=read_at(call))


@ENDPOINTS(
    "deleteClient", "DELETE /clients/<clientId>", "Delete Client", scopes="auth:delete-client:<clientId>", success=204
)
async def delete_client(services: AuthServices, call: Call) -> Answer:
    """Removes a client. It succeeds also when there is none."""
    async with _noted(services, call, "deleted") as entry:
        await services.clients.delete(call.params["clientId"], entry)
    return NO_CONTENT


def _noted(
    services: AuthServices, call: Call, action: str, *, begins: bool = True
) -> AbstractAsyncContextManager[Entry]:
    return services.audit.entry_of(call, Subject("client", call.params["clientId"]), action, begins=begins)


def read_at(call: Call) -> str:
    """The `lastModified` of what the caller has read, from the header If-Match; empty without one, or for `*`."""
    return call.headers.get("if-match", "").removeprefix("W/").strip('"*')
