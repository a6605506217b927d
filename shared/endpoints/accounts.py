"""The one table of the auth API's endpoints that a deployment needs to stand alone: clients, roles and scopes.

Names, routes, schemas and scopes are those of the public clients' `Auth` class; `sign_in` is for the console.
"""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.endpoints import audit, clients, roles, scopes, service, sign_in

PREFIX = "/api/auth/v1"

ENDPOINTS: tuple[Endpoint, ...] = (
    *service.ENDPOINTS,
    *audit.ACCOUNTS,
    *clients.ENDPOINTS,
    *roles.ENDPOINTS,
    *scopes.ENDPOINTS,
    *sign_in.ENDPOINTS,
)
