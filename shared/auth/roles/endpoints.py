"""Endpoints of the auth API on roles: models, rows and handlers (contract 11.5)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

from pydantic import RootModel, StringConstraints

from shared.api.answer import NO_CONTENT, Answer, json_answer
from shared.api.endpoint import PAGING, Call, Endpoint
from shared.api.validation import continued, limit_of, start_of
from shared.auth import audit
from shared.auth.audit import Entry
from shared.auth.clients.endpoints import Description, read_at
from shared.auth.roles.accounts import RoleRequest
from shared.auth.services import AuthServices
from shared.base.types import Closed, Date, Scope, Unique, optional

RoleId = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]+$")]


class CreateRoleRequest(Closed):
    """What a role is for, and what it grants to clients that assume it."""

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


async def list_roles(services: AuthServices, call: Call) -> Answer:
    """listRoles: an array, not an object."""
    return json_answer(await services.roles.all())


async def list_roles2(services: AuthServices, call: Call) -> Mapping[str, Any]:
    """listRoles2."""
    roles, resume = await services.roles.page(start_of(call.query), _limit_of_roles(call))
    return {"roles": roles, **continued(resume)}


async def list_role_ids(services: AuthServices, call: Call) -> Mapping[str, Any]:
    """listRoleIds."""
    ids, resume = await services.roles.ids(start_of(call.query), _limit_of_roles(call))
    return {"roleIds": ids, **continued(resume)}


def _limit_of_roles(call: Call) -> int | None:
    """Without a limit, or with 0, all of them: as upstream, and unlike any other listing."""
    return limit_of(call.query) or None if "limit" in call.query else None


async def role(services: AuthServices, call: Call) -> Mapping[str, Any]:
    """role."""
    return await services.roles.get(call.params["roleId"])


async def create_role(services: AuthServices, call: Call) -> Mapping[str, Any]:
    """createRole."""
    request = _role_request(call)
    role_id, authorise = call.params["roleId"], call.authorise_with("scopes")
    async with _noted(services, call, "created", begins=False) as entry:
        return await services.roles.create(role_id, request, entry.after(authorise), entry)


async def update_role(services: AuthServices, call: Call) -> Mapping[str, Any]:
    """updateRole."""
    request = _role_request(call)
    role_id, authorise = call.params["roleId"], call.authorise_with("scopesAdded")
    async with _noted(services, call, "updated", begins=False) as entry:
        return await services.roles.update(role_id, request, entry.after(authorise), entry, read=read_at(call))


async def delete_role(services: AuthServices, call: Call) -> Answer:
    """deleteRole."""
    async with _noted(services, call, "deleted") as entry:
        await services.roles.delete(call.params["roleId"], entry)
    return NO_CONTENT


def _noted(
    services: AuthServices, call: Call, action: str, *, begins: bool = True
) -> AbstractAsyncContextManager[Entry]:
    return services.audit.entry_of(call, audit.role(call.params["roleId"]), action, begins=begins)


def _role_request(call: Call) -> RoleRequest:
    return RoleRequest.of(call.payload(CreateRoleRequest).model_dump())


_ROLES = "Roles"

ENDPOINTS: tuple[Endpoint[AuthServices], ...] = (
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
        output=RoleResponse,
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
        output=RoleResponse,
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
