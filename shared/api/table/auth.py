"""Endpoints of the auth API that a deployment needs to stand alone: clients, roles and scopes.

Names, routes, schemas and scopes are those of the public clients' `Auth` class.
"""

from __future__ import annotations

from shared.api.endpoint import PAGING, Endpoint
from shared.api.models.auth import (
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
from shared.api.table import service

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
        title="List Clients",
        description="Answers a page of the clients, or of those whose clientId starts with `prefix`. A page may be "
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
        title="Get Client",
        description="Answers what is known of one client, but for its access token.",
        category=_CLIENTS,
        scopes="auth:get-client:<clientId>",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="createClient",
        method="PUT",
        route="/clients/<clientId>",
        title="Create Client",
        description="Creates a client and answers its `accessToken`, which can't be read again. The caller must have "
        "the scopes that the client is given. If there is such a client already the call fails, unless it repeats the "
        "call that made it.",
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
        title="Reset `accessToken`",
        description="Gives a client a new `accessToken` and answers it. The old one ends, and so do credentials that "
        "were issued with it, within a minute.",
        category=_CLIENTS,
        scopes="auth:reset-access-token:<clientId>",
        output=CreateClientResponse,
        output_schema="create-client-response",
    ),
    Endpoint(
        name="enableClient",
        method="POST",
        route="/clients/<clientId>/enable",
        title="Enable Client",
        description="Lets a disabled client work again. Nothing happens if it is enabled.",
        category=_CLIENTS,
        scopes="auth:enable-client:<clientId>",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="disableClient",
        method="POST",
        route="/clients/<clientId>/disable",
        title="Disable Client",
        description="Ends the work of a client, and of credentials that it issued, within a minute. Nothing happens "
        "if it is disabled.",
        category=_CLIENTS,
        scopes="auth:disable-client:<clientId>",
        output=ClientResponse,
        output_schema="get-client-response",
    ),
    Endpoint(
        name="updateClient",
        method="POST",
        route="/clients/<clientId>",
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
        title="List Roles (no pagination)",
        description="Answers all roles, each with what it expands to.",
        category=_ROLES,
        scopes="auth:list-roles",
        output=ListRolesResponse,
        output_schema="list-roles-response",
    ),
    Endpoint(
        name="listRoles2",
        method="GET",
        route="/roles2/",
        title="List Roles",
        description="Answers a page of the roles, each with what it expands to; without `limit` all of them. A page "
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
        title="List Role IDs",
        description="Answers a page of the ids of roles; without `limit` all of them.",
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
        title="Get Role",
        description="Answers one role, with what it expands to.",
        category=_ROLES,
        scopes="auth:get-role:<roleId>",
        output=RoleResponse,
        output_schema="get-role-response",
    ),
    Endpoint(
        name="createRole",
        method="PUT",
        route="/roles/<roleId>",
        title="Create Role",
        description="Creates a role. The caller must have the scopes that it grants. If there is such a role already "
        "the call fails, unless it is the same one. A role must not lead back to itself.",
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
        title="Update Role",
        description="Changes a role. The caller must have the scopes that are added, but not those that the role had. "
        "A role must not lead back to itself.",
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
        title="Expand Scopes",
        description="Answers the scopes with everything that roles grant to whoever has them.",
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
        title="Get Current Scopes",
        description="Answers the expanded scopes of the request, whatever kind of credentials it has.",
        category=_SCOPES,
        scopes="auth:current-scopes",
        output=Scopeset,
        output_schema="scopeset",
    ),
    Endpoint(
        name="authenticateHawk",
        method="POST",
        route="/authenticate-hawk",
        title="Authenticate Hawk Request",
        description="For other services: checks the signature of a request that one of them has received, and answers "
        "whose it is and which scopes it has. What its payload's hash says is for that service to compare.",
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
        title="Test Authentication",
        description="For those who write clients: takes requests of the clientId `tester` with the accessToken "
        "`no-secret`, whose scopes are `clientScopes`, and checks that they satisfy `requiredScopes`.",
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
        title="Test Authentication (GET)",
        description="As testAuthenticate, for signed URLs: the scopes are `test:*` and `auth:create-client:test:*`, "
        "and `test:authenticate-get` is needed.",
        category=_SCOPES,
        output=TestAuthenticateResponse,
        output_schema="test-authenticate-response",
    ),
)

ENDPOINTS = (*service.ENDPOINTS, *CLIENTS, *ROLES, *SCOPES)
