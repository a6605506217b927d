"""Endpoints of the auth API on roles: models, rows and handlers (contract 11.5)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from pydantic import RootModel, StringConstraints

from shared.api.answer import NO_CONTENT, Answer, json_answer
from shared.api.endpoint import PAGING, Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import continued, limit_of, start_of
from shared.auth.audit import Entry, Subject
from shared.auth.clients.accounts import Description
from shared.auth.clients.endpoints import read_at
from shared.auth.roles.accounts import CreateRoleRequest
from shared.auth.services import AuthServices
from shared.base.types import Closed, Date, Scope, Unique, page_model

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


ENDPOINTS = Endpoints[AuthServices]("Roles")


@ENDPOINTS("listRoles", "GET /roles/", "List Roles (no pagination)", scopes="auth:list-roles")
async def list_roles(services: AuthServices, call: Call) -> Annotated[Answer, ListRolesResponse]:
    """Returns all roles, each with its expanded scopes."""
    return json_answer(await services.roles.all())  # an array, not an object


@ENDPOINTS("listRoles2", "GET /roles2/", "List Roles", scopes="auth:list-roles", query=PAGING)
async def list_roles2(services: AuthServices, call: Call) -> Annotated[Json, ListRoles2Response]:
    """Returns a page of the roles, each with what it expands to; without `limit` all of them. A page may be short while
    there are more: go on until there is no `continuationToken`."""
    roles, resume = await services.roles.page(start_of(call.query), _limit_of_roles(call))
    return {"roles": roles, **continued(resume)}


@ENDPOINTS("listRoleIds", "GET /roleids/", "List Role IDs", scopes="auth:list-roles", query=PAGING)
async def list_role_ids(services: AuthServices, call: Call) -> Annotated[Json, ListRoleIdsResponse]:
    """Returns a page of the ids of roles; without `limit` all of them."""
    ids, resume = await services.roles.ids(start_of(call.query), _limit_of_roles(call))
    return {"roleIds": ids, **continued(resume)}


@ENDPOINTS("role", "GET /roles/<roleId>", "Get Role", scopes="auth:get-role:<roleId>")
async def role(services: AuthServices, call: Call) -> Annotated[Json, RoleResponse]:
    """Returns one role, with its expanded scopes."""
    return await services.roles.get(call.params["roleId"])


@ENDPOINTS(
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
    async with _noted(services, call, "created", begins=False) as entry:
        return await services.roles.create(role_id, request, entry.after(authorise), entry)


@ENDPOINTS(
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
    async with _noted(services, call, "updated", begins=False) as entry:
        return await services.roles.update(role_id, request, entry.after(authorise), entry, read=read_at(call))


@ENDPOINTS("deleteRole", "DELETE /roles/<roleId>", "Delete Role", scopes="auth:delete-role:<roleId>", success=204)
async def delete_role(services: AuthServices, call: Call) -> Answer:
    """Removes a role. It succeeds also when there is none."""
    async with _noted(services, call, "deleted") as entry:
        await services.roles.delete(call.params["roleId"], entry)
    return NO_CONTENT


def _limit_of_roles(call: Call) -> int | None:
    """Returns the limit of a page of roles. None, for no limit or 0, means all roles: as upstream, and unlike any other
    listing."""
    return limit_of(call.query) or None if "limit" in call.query else None


def _noted(
    services: AuthServices, call: Call, action: str, *, begins: bool = True
) -> AbstractAsyncContextManager[Entry]:
    return services.audit.entry_of(call, Subject("role", call.params["roleId"]), action, begins=begins)
