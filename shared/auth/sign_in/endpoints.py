"""Signing in with an OpenID Connect provider, of people and of workloads: models, rows, handlers (contract 11.8)."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import StringConstraints

from shared.api.endpoint import Call, Endpoints, Json
from shared.auth.certificates import temporary_credentials
from shared.auth.clients.endpoints import ClientId
from shared.auth.clients.rows import ROOT_CLIENT_ID
from shared.auth.services import AuthServices
from shared.auth.sign_in.openid import Identity
from shared.base.errors import ResourceNotFound
from shared.base.types import Closed, optional

LASTS = timedelta(hours=1)
"""For how long the credentials of a sign-in work."""


class OpenidProvider(Closed):
    """With whom people sign in."""

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


ENDPOINTS = Endpoints[AuthServices]("Scopes and Auth")


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
    identity = await _identity(services, call.payload(SignInRequest))
    settings, now = services.settings, services.runtime.now()
    return temporary_credentials(
        client_id=identity.client_id,
        scopes=identity.scopes,
        start=now,
        expiry=now + LASTS,
        issuer=ROOT_CLIENT_ID,
        issuer_token=settings.root_access_token.get_secret_value(),
        seed=services.runtime.slugid() + identity.share,
    )


async def _identity(services: AuthServices, request: SignInRequest) -> Identity:
    """Returns who the token is about. Browsers send a nonce when they request a token, and say so when they refresh
    one; workloads do neither."""
    given = request.model_fields_set
    if "nonce" in given or ("refreshed" in given and request.refreshed):
        if services.sign_in is None:
            raise ResourceNotFound("nobody can sign in here: no OpenID Connect provider is set up")
        return await services.sign_in.identity(request.idToken, request.nonce if "nonce" in given else None)
    if services.workload_sign_in is None:
        raise ResourceNotFound("no workload can sign in here: no issuer of its ID tokens is set up")
    return await services.workload_sign_in.identity(request.idToken)
