"""Endpoints of the auth API on scopes, signatures, and signing in with an OpenID Connect provider: models, rows and
handlers (contract 11.5, 11.7, 11.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, RootModel, StringConstraints

from shared.api.endpoint import Call, Endpoints, Json
from shared.auth.account_endpoints import AuthServices, ClientId
from shared.auth.authenticate import Authenticator, target_of
from shared.auth.certificates import temporary_credentials
from shared.auth.clients.accounts import NEVER
from shared.auth.clients.rows import ROOT_CLIENT_ID, Client, Keyring
from shared.auth.roles.expansion import ExpansionTooLarge
from shared.base.dates import format_date
from shared.base.errors import AuthenticationFailed, InputError, ResourceNotFound
from shared.base.types import Closed, Date, OneOf, Scope, Unique, optional

TESTER = "tester"
TESTER_TOKEN = "no-secret"  # noqa: S105 - public: the test endpoints' own, which opens nothing else

ANSWER_HOLDS = timedelta(minutes=15)
"""The time for which a service may rely on the scopes of anonymous callers."""

NOBODY = "auth-failed:no-auth"
"""The client id that the test endpoints report for a request without credentials."""

_METHODS = (
    "get post put head delete options trace copy lock mkcol move purge propfind proppatch unlock report mkactivity "
    "checkout merge m-search notify subscribe unsubscribe patch search connect"
)
"""HTTP methods of requests whose signature another service asks about, as upstream names them."""


class AuthenticateHawkRequest(Closed):
    """A request that another service has received, for its signature to be checked."""

    method: Annotated[str, OneOf(tuple(_METHODS.split()))]
    resource: str
    host: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,253}$"), Field(json_schema_extra={"format": "hostname"})
    ]
    port: Annotated[int, Field(ge=0, le=65535)]
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


ENDPOINTS = Endpoints[AuthServices]("Scopes and Auth")


@ENDPOINTS("expandScopes", "POST /scopes/expand", "Expand Scopes", scopes="auth:expand-scopes", input=Scopeset)
async def expand_scopes(services: AuthServices, call: Call) -> Annotated[Json, Scopeset]:
    """Returns the scopes with everything that roles grant to their holder."""
    roles = await services.keyring.roles()
    try:
        return {"scopes": list(roles.expand(call.payload(Scopeset).scopes))}
    except ExpansionTooLarge as error:
        raise InputError(str(error)) from None


@ENDPOINTS(
    "currentScopes", "GET /scopes/current", "Get Current Scopes", scopes="auth:current-scopes", scopes_of_anonymous=True
)
async def current_scopes(services: AuthServices, call: Call) -> Annotated[Json, Scopeset]:
    """Returns the expanded scopes of the request, whatever kind of credentials it has. Whoever has credentials needs no
    scope for it."""
    return {"scopes": list((await call.caller()).scopes)}


@ENDPOINTS("authenticateHawk", "POST /authenticate-hawk", "Authenticate Hawk Request", input=AuthenticateHawkRequest)
async def authenticate_hawk(services: AuthServices, call: Call) -> Annotated[Json, AuthenticateHawkResponse]:
    """For other services: verifies the signature of a request that one of them has received, and returns its clientId
    and scopes. The service itself has to compare the hash of the payload."""
    request = call.payload(AuthenticateHawkRequest)
    now = services.runtime.now()
    headers = {} if request.authorization is None else {"authorization": request.authorization}
    root_url = f"http://{request.host}:{request.port or 80}"
    authenticator = Authenticator(services.keyring, root_url, services.runtime.now)
    try:
        caller = await authenticator.caller(request.method, [target_of(request.resource)], headers, None)
    except AuthenticationFailed as error:  # the answer is a 200 whatever the signature is worth
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


@ENDPOINTS("testAuthenticate", "POST /test-authenticate", "Test Authentication", input=TestAuthenticateRequest)
async def test_authenticate(services: AuthServices, call: Call) -> Annotated[Json, TestAuthenticateResponse]:
    """For authors of clients: accepts requests of the clientId `tester` with the accessToken `no-secret`, whose scopes
    are `clientScopes`, and checks that they satisfy `requiredScopes`."""
    request = call.payload(TestAuthenticateRequest)
    return await _tested(services, call, request.clientScopes, request.requiredScopes)


@ENDPOINTS("testAuthenticateGet", "GET /test-authenticate-get/", "Test Authentication (GET)")
async def test_authenticate_get(services: AuthServices, call: Call) -> Annotated[Json, TestAuthenticateResponse]:
    """Checks signed URLs as testAuthenticate does: the scopes are `test:*` and `auth:create-client:test:*`, and
    `test:authenticate-get` is required."""
    return await _tested(services, call, ["test:*", "auth:create-client:test:*"], ["test:authenticate-get"])


async def _tested(
    services: AuthServices, call: Call, held: Sequence[str], required: Sequence[str]
) -> Mapping[str, Any]:
    tester = Client(client_id=TESTER, access_token=TESTER_TOKEN, scopes=tuple(held))
    authenticator = Authenticator(Keyring([tester]), services.settings.root_url, services.runtime.now)
    caller = await call.authenticate(authenticator)
    caller.require({"AllOf": list(required)})
    return {"clientId": caller.client_id or NOBODY, "scopes": list(caller.scopes)}


LASTS = timedelta(hours=1)
"""For how long the credentials of a sign-in work."""


class OpenidProvider(Closed):
    """An OpenID Connect provider with which people sign in."""

    issuer: str
    clientId: str
    scopes: str
    name: str


class SignInOptionsResponse(Closed):
    """The provider by which people sign in. Without one nobody can."""

    provider: OpenidProvider = optional()


class SignInRequest(Closed):
    """The ID token of a sign-in, and the nonce that was sent with the request for it. A workload has none, nor has a
    token that a browser got for its refresh token."""

    idToken: Annotated[str, StringConstraints(max_length=65536)]
    nonce: Annotated[str, StringConstraints(min_length=16, max_length=1024)] = optional()
    refreshed: bool = optional()


class SignInResponse(Closed):
    """Temporary credentials; `certificate` is JSON as text."""

    clientId: ClientId
    accessToken: str
    certificate: str


@ENDPOINTS("signInOptions", "GET /sign-in", "How to Sign In", stability="experimental")
async def sign_in_options(services: AuthServices, call: Call) -> Annotated[Json, SignInOptionsResponse]:
    """Returns with which OpenID Connect provider people sign in to the console, if there is one. Not part of the public
    API."""
    if services.sign_in is None:
        return {}
    settings = services.settings
    return {
        "provider": {
            "issuer": settings.openid_issuer,
            "clientId": settings.openid_client_id,
            "scopes": settings.openid_scopes,
            "name": settings.openid_name,
        }
    }


@ENDPOINTS("signIn", "POST /sign-in", "Sign In", input=SignInRequest, stability="experimental")
async def sign_in(services: AuthServices, call: Call) -> Annotated[Json, SignInResponse]:
    """Exchanges an ID token of the provider for temporary credentials of an hour, with the roles that the settings give
    to the groups and application roles in the token; without a nonce, one of a workload, with the role that is named
    after its subject. Not part of the public API."""
    request, settings, now = call.payload(SignInRequest), services.settings, services.runtime.now()
    given = request.model_fields_set
    # Browsers send a nonce when they request a token, and say so when they refresh one; workloads do neither.
    if "nonce" in given or ("refreshed" in given and request.refreshed):
        if services.sign_in is None:
            raise ResourceNotFound("nobody can sign in here: no OpenID Connect provider is set up")
        identity = await services.sign_in.identity(request.idToken, request.nonce if "nonce" in given else None)
    elif services.workload_sign_in is None:
        raise ResourceNotFound("no workload can sign in here: no issuer of its ID tokens is set up")
    else:
        identity = await services.workload_sign_in.identity(request.idToken)
    return temporary_credentials(
        client_id=identity.client_id,
        scopes=identity.scopes,
        start=now,
        expiry=now + LASTS,
        issuer=ROOT_CLIENT_ID,
        issuer_token=settings.root_access_token.get_secret_value(),
        seed=services.runtime.slugid() + identity.share,
    )
