"""Endpoints of the auth API that a deployment needs to stand alone: clients, roles and scopes.

Names, routes, schemas and scopes are those of the public clients' `Auth` class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from shared.api.answer import Answer, json_answer
from shared.api.endpoint import PAGING, Call, Endpoint
from shared.api.paging import continued, limit_of, start_of
from shared.auth.authenticate import Authenticator
from shared.auth.clients import Client, StaticClients
from shared.auth.expansion import ExpansionTooLarge
from shared.auth.targets import target_of
from shared.domain.dates import format_date
from shared.endpoints import service
from shared.endpoints.account_models import (
    AuthenticateHawkRequest,
    AuthenticateHawkResponse,
    ClientResponse,
    CreateClientRequest,
    CreateClientResponse,
    CreateRoleRequest,
    ListClientsResponse,
    ListRoleIdsResponse,
    ListRoles2Response,
    ListRolesResponse,
    RoleResponse,
    Scopeset,
    TestAuthenticateRequest,
    TestAuthenticateResponse,
)
from shared.errors import AuthenticationFailed, InputError
from shared.services import Services
from shared.usecases.clients import NEVER, Authorise, ClientRequest
from shared.usecases.roles import RoleRequest

NO_CONTENT = Answer(status=204)

TESTER = "tester"
TESTER_TOKEN = "no-secret"  # noqa: S105 - public: the test endpoints' own, which opens nothing else
ANSWER_HOLDS = timedelta(minutes=15)
"""For how long a service may rely on what anonymous callers have."""
NOBODY = "auth-failed:no-auth"
"""What the test endpoints call a request without credentials."""


async def list_clients(services: Services, call: Call) -> Mapping[str, Any]:
    """listClients."""
    limit = limit_of(call.query)
    if limit == 0:
        return {"clients": []}
    prefix = call.query.get("prefix", "")
    clients, resume = await services.clients.page(prefix, start=start_of(call.query), limit=limit)
    return {"clients": clients, **continued(resume)}


async def client(services: Services, call: Call) -> Mapping[str, Any]:
    """client."""
    return await services.clients.get(call.params["clientId"])


async def create_client(services: Services, call: Call) -> Mapping[str, Any]:
    """createClient."""
    request = _client_request(call)
    return await services.clients.create(call.params["clientId"], request, _granting(call, "scopes"))


async def update_client(services: Services, call: Call) -> Mapping[str, Any]:
    """updateClient."""
    request = _client_request(call)
    return await services.clients.update(call.params["clientId"], request, _granting(call, "scopesAdded"))


async def enable_client(services: Services, call: Call) -> Mapping[str, Any]:
    """enableClient."""
    return await services.clients.set_disabled(call.params["clientId"], False)


async def disable_client(services: Services, call: Call) -> Mapping[str, Any]:
    """disableClient."""
    return await services.clients.set_disabled(call.params["clientId"], True)


async def reset_access_token(services: Services, call: Call) -> Mapping[str, Any]:
    """resetAccessToken."""
    return await services.clients.reset_access_token(call.params["clientId"])


async def delete_client(services: Services, call: Call) -> Answer:
    """deleteClient."""
    await services.clients.delete(call.params["clientId"])
    return NO_CONTENT


async def list_roles(services: Services, call: Call) -> Answer:
    """listRoles: an array, not an object."""
    return json_answer(await services.roles.all())


async def list_roles2(services: Services, call: Call) -> Mapping[str, Any]:
    """listRoles2."""
    roles, resume = await services.roles.page(start_of(call.query), _limit_of_roles(call))
    return {"roles": roles, **continued(resume)}


async def list_role_ids(services: Services, call: Call) -> Mapping[str, Any]:
    """listRoleIds."""
    ids, resume = await services.roles.ids(start_of(call.query), _limit_of_roles(call))
    return {"roleIds": ids, **continued(resume)}


def _limit_of_roles(call: Call) -> int | None:
    """Without a limit, or with 0, all of them: as upstream, and unlike any other listing."""
    return limit_of(call.query) or None if "limit" in call.query else None


async def role(services: Services, call: Call) -> Mapping[str, Any]:
    """role."""
    return await services.roles.get(call.params["roleId"])


async def create_role(services: Services, call: Call) -> Mapping[str, Any]:
    """createRole."""
    request = _role_request(call)
    return await services.roles.create(call.params["roleId"], request, _granting(call, "scopes"))


async def update_role(services: Services, call: Call) -> Mapping[str, Any]:
    """updateRole."""
    request = _role_request(call)
    return await services.roles.update(call.params["roleId"], request, _granting(call, "scopesAdded"))


async def delete_role(services: Services, call: Call) -> Answer:
    """deleteRole."""
    await services.roles.delete(call.params["roleId"])
    return NO_CONTENT


async def expand_scopes(services: Services, call: Call) -> Mapping[str, Any]:
    """expandScopes."""
    roles = await services.keyring.roles()
    try:
        return {"scopes": list(roles.expand(call.payload(Scopeset).scopes))}
    except ExpansionTooLarge as error:
        raise InputError(str(error)) from None


async def current_scopes(services: Services, call: Call) -> Mapping[str, Any]:
    """currentScopes."""
    return {"scopes": list((await call.caller()).scopes)}


async def authenticate_hawk(services: Services, call: Call) -> Mapping[str, Any]:
    """authenticateHawk: the answer is a 200 whatever the signature is worth."""
    request = call.payload(AuthenticateHawkRequest)
    now = services.runtime.now()
    headers = {} if request.authorization is None else {"authorization": request.authorization}
    root_url = f"http://{request.host}:{request.port or 80}"
    authenticator = Authenticator(services.keyring, root_url, services.runtime.now)
    try:
        caller = await authenticator.caller(request.method, [target_of(request.resource)], headers, None)
    except AuthenticationFailed as error:
        return {"status": "auth-failed", "message": error.message}
    scopes = list(caller.scopes)
    if caller.client_id is None:
        return {"status": "no-auth", "scheme": "none", "scopes": scopes, "expires": format_date(now + ANSWER_HOLDS)}
    return {
        "status": "auth-success",
        "scheme": "hawk",
        "clientId": caller.client_id,
        "scopes": scopes,
        "expires": format_date(caller.expires or NEVER),
        **({"hash": caller.payload_hash} if caller.payload_hash else {}),
    }


async def test_authenticate(services: Services, call: Call) -> Mapping[str, Any]:
    """testAuthenticate."""
    request = call.payload(TestAuthenticateRequest)
    return await _tested(services, call, request.clientScopes, request.requiredScopes)


async def test_authenticate_get(services: Services, call: Call) -> Mapping[str, Any]:
    """testAuthenticateGet."""
    return await _tested(services, call, ["test:*", "auth:create-client:test:*"], ["test:authenticate-get"])


async def _tested(services: Services, call: Call, held: Sequence[str], required: Sequence[str]) -> Mapping[str, Any]:
    tester = Client(client_id=TESTER, access_token=TESTER_TOKEN, scopes=tuple(held))
    authenticator = Authenticator(StaticClients([tester]), services.settings.root_url, services.runtime.now)
    caller = await call.authenticate(authenticator)
    caller.require({"AllOf": list(required)})
    return {"clientId": caller.client_id or NOBODY, "scopes": list(caller.scopes)}


def _client_request(call: Call) -> ClientRequest:
    return ClientRequest.of(call.payload(CreateClientRequest).model_dump(exclude_none=True))


def _role_request(call: Call) -> RoleRequest:
    return RoleRequest.of(call.payload(CreateRoleRequest).model_dump())


def _granting(call: Call, param: str) -> Authorise:
    """The endpoint's scope expression, in which `param` stands for the scopes that are given away."""

    async def authorise(granted: Sequence[str]) -> None:
        await call.authorise({param: list(granted)})

    return authorise


PREFIX = "/api/auth/v1"

_CLIENTS = "Clients"
_ROLES = "Roles"
_SCOPES = "Scopes and Auth"

# Routes with a word after the id come first: an id may hold slashes, which the platform may have decoded.
CLIENTS = (
    Endpoint(
        name="listClients",
        method="GET",
        route="/clients/",
        handler=list_clients,
        title="List Clients",
        description="Returns a page of the clients, or of those whose clientId starts with `prefix`. A page may be "
        "short or empty while there are more: go on until there is no `continuationToken`.",
        category=_CLIENTS,
        scopes="auth:list-clients",
        query={"prefix": r"^[A-Za-z0-9!@/:.+|_-]+$", **PAGING},
        output=ListClientsResponse,
        output_schema="list-clients-response",
    ),
    Endpoint(
        name="client",
        method="GET",
        route="/clients/<clientId>",
        handler=client,
        title="Get Client",
        description="Returns the properties of a client, without its access token.",
        category=_CLIENTS,
        scopes="auth:get-client:<clientId>",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="createClient",
        method="PUT",
        route="/clients/<clientId>",
        handler=create_client,
        title="Create Client",
        description="Creates a client and returns its `accessToken`, which can't be read again. The caller must "
        "have the scopes that the client is given. If the client exists already the call fails, unless "
        "it repeats the call that created it.",
        category=_CLIENTS,
        scopes={"AllOf": ["auth:create-client:<clientId>", {"for": "scope", "in": "scopes", "each": "<scope>"}]},
        input=CreateClientRequest,
        input_schema="create-client-request",
        output=CreateClientResponse,
        output_schema="create-client-response",
    ),
    Endpoint(
        name="resetAccessToken",
        method="POST",
        route="/clients/<clientId>/reset",
        handler=reset_access_token,
        title="Reset `accessToken`",
        description="Gives a client a new `accessToken` and returns it. The old one, and credentials that were "
        "issued with it, are refused within a minute.",
        category=_CLIENTS,
        scopes="auth:reset-access-token:<clientId>",
        output=CreateClientResponse,
        output_schema="create-client-response",
    ),
    Endpoint(
        name="enableClient",
        method="POST",
        route="/clients/<clientId>/enable",
        handler=enable_client,
        title="Enable Client",
        description="Enables a disabled client. No effect if it is enabled.",
        category=_CLIENTS,
        scopes="auth:enable-client:<clientId>",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="disableClient",
        method="POST",
        route="/clients/<clientId>/disable",
        handler=disable_client,
        title="Disable Client",
        description="Disables a client: its calls, and those with credentials that it issued, are refused within a "
        "minute. No effect if it is disabled.",
        category=_CLIENTS,
        scopes="auth:disable-client:<clientId>",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="updateClient",
        method="POST",
        route="/clients/<clientId>",
        handler=update_client,
        title="Update Client",
        description="Changes a client; its id and `accessToken` stay. The caller must have the scopes that are added. "
        "Without `scopes` the client keeps those that it has.",
        category=_CLIENTS,
        scopes={"AllOf": ["auth:update-client:<clientId>", {"for": "scope", "in": "scopesAdded", "each": "<scope>"}]},
        input=CreateClientRequest,
        input_schema="create-client-request",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="deleteClient",
        method="DELETE",
        route="/clients/<clientId>",
        handler=delete_client,
        title="Delete Client",
        description="Removes a client. It succeeds also when there is none.",
        category=_CLIENTS,
        scopes="auth:delete-client:<clientId>",
        success=204,
    ),
)

ROLES = (
    Endpoint(
        name="listRoles",
        method="GET",
        route="/roles/",
        handler=list_roles,
        title="List Roles (no pagination)",
        description="Returns all roles, each with its expanded scopes.",
        category=_ROLES,
        scopes="auth:list-roles",
        output=ListRolesResponse,
        output_schema="list-roles-response",
    ),
    Endpoint(
        name="listRoles2",
        method="GET",
        route="/roles2/",
        handler=list_roles2,
        title="List Roles",
        description="Returns a page of the roles, each with what it expands to; without `limit` all of them. A page "
        "may be short while there are more: go on until there is no `continuationToken`.",
        category=_ROLES,
        scopes="auth:list-roles",
        query=PAGING,
        output=ListRoles2Response,
        output_schema="list-roles2-response",
    ),
    Endpoint(
        name="listRoleIds",
        method="GET",
        route="/roleids/",
        handler=list_role_ids,
        title="List Role IDs",
        description="Returns a page of the ids of roles; without `limit` all of them.",
        category=_ROLES,
        scopes="auth:list-roles",
        query=PAGING,
        output=ListRoleIdsResponse,
        output_schema="list-role-ids-response",
    ),
    Endpoint(
        name="role",
        method="GET",
        route="/roles/<roleId>",
        handler=role,
        title="Get Role",
        description="Returns one role, with its expanded scopes.",
        category=_ROLES,
        scopes="auth:get-role:<roleId>",
        output=RoleResponse,
        output_schema="get-role-response",
    ),
    Endpoint(
        name="createRole",
        method="PUT",
        route="/roles/<roleId>",
        handler=create_role,
        title="Create Role",
        description="Creates a role. The caller must have the scopes that it grants. If the role exists already the "
        "call fails, unless it is the same one. Roles must not form a cycle.",
        category=_ROLES,
        scopes={"AllOf": ["auth:create-role:<roleId>", {"for": "scope", "in": "scopes", "each": "<scope>"}]},
        input=CreateRoleRequest,
        input_schema="create-role-request",
        output=RoleResponse,
        output_schema="get-role-response",
    ),
    Endpoint(
        name="updateRole",
        method="POST",
        route="/roles/<roleId>",
        handler=update_role,
        title="Update Role",
        description="Changes a role. The caller must have the scopes that are added, but not those that the role "
        "had. Roles must not form a cycle.",
        category=_ROLES,
        scopes={"AllOf": ["auth:update-role:<roleId>", {"for": "scope", "in": "scopesAdded", "each": "<scope>"}]},
        input=CreateRoleRequest,
        input_schema="create-role-request",
        output=RoleResponse,
        output_schema="get-role-response",
    ),
    Endpoint(
        name="deleteRole",
        method="DELETE",
        route="/roles/<roleId>",
        handler=delete_role,
        title="Delete Role",
        description="Removes a role. It succeeds also when there is none.",
        category=_ROLES,
        scopes="auth:delete-role:<roleId>",
        success=204,
    ),
)

SCOPES = (
    Endpoint(
        name="expandScopes",
        method="POST",
        route="/scopes/expand",
        handler=expand_scopes,
        title="Expand Scopes",
        description="Returns the scopes with everything that roles grant to their holder.",
        category=_SCOPES,
        scopes="auth:expand-scopes",
        input=Scopeset,
        input_schema="scopeset",
        output=Scopeset,
        output_schema="scopeset",
    ),
    Endpoint(
        name="currentScopes",
        method="GET",
        route="/scopes/current",
        handler=current_scopes,
        title="Get Current Scopes",
        description="Returns the expanded scopes of the request, whatever kind of credentials it has.",
        category=_SCOPES,
        scopes="auth:current-scopes",
        output=Scopeset,
        output_schema="scopeset",
    ),
    Endpoint(
        name="authenticateHawk",
        method="POST",
        route="/authenticate-hawk",
        handler=authenticate_hawk,
        title="Authenticate Hawk Request",
        description="For other services: verifies the signature of a request that one of them has received, and "
        "returns its clientId and scopes. The service itself has to compare the hash of the payload.",
        category=_SCOPES,
        input=AuthenticateHawkRequest,
        input_schema="authenticate-hawk-request",
        output=AuthenticateHawkResponse,
        output_schema="authenticate-hawk-response",
    ),
    Endpoint(
        name="testAuthenticate",
        method="POST",
        route="/test-authenticate",
        handler=test_authenticate,
        title="Test Authentication",
        description="For authors of clients: accepts requests of the clientId `tester` with the accessToken `no-"
        "secret`, whose scopes are `clientScopes`, and checks that they satisfy `requiredScopes`.",
        category=_SCOPES,
        input=TestAuthenticateRequest,
        input_schema="test-authenticate-request",
        output=TestAuthenticateResponse,
        output_schema="test-authenticate-response",
    ),
    Endpoint(
        name="testAuthenticateGet",
        method="GET",
        route="/test-authenticate-get/",
        handler=test_authenticate_get,
        title="Test Authentication (GET)",
        description="As testAuthenticate, for signed URLs: the scopes are `test:*` and `auth:create-client:test:*`, "
        "and `test:authenticate-get` is required.",
        category=_SCOPES,
        output=TestAuthenticateResponse,
        output_schema="test-authenticate-response",
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (*service.ENDPOINTS, *CLIENTS, *ROLES, *SCOPES)
