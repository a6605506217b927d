"""Endpoints of the auth API: clients, roles, scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from functions import service
from functions.http import Handler
from functions.pools import continued
from shared.api.answer import Answer, json_answer
from shared.api.call import Call
from shared.api.models.auth import (
    AuthenticateHawkRequest,
    CreateClientRequest,
    CreateRoleRequest,
    Scopeset,
    TestAuthenticateRequest,
)
from shared.api.paging import limit_of, start_of
from shared.auth.authenticate import Authenticator
from shared.auth.clients import Client, StaticClients
from shared.auth.expansion import ExpansionTooLarge
from shared.auth.targets import target_of
from shared.domain.dates import format_date
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


HANDLERS: Mapping[str, Handler] = {
    **service.HANDLERS,
    "listClients": list_clients,
    "client": client,
    "createClient": create_client,
    "updateClient": update_client,
    "enableClient": enable_client,
    "disableClient": disable_client,
    "resetAccessToken": reset_access_token,
    "deleteClient": delete_client,
    "listRoles": list_roles,
    "listRoles2": list_roles2,
    "listRoleIds": list_role_ids,
    "role": role,
    "createRole": create_role,
    "updateRole": update_role,
    "deleteRole": delete_role,
    "expandScopes": expand_scopes,
    "currentScopes": current_scopes,
    "authenticateHawk": authenticate_hawk,
    "testAuthenticate": test_authenticate,
    "testAuthenticateGet": test_authenticate_get,
}
