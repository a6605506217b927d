"""The services that the endpoints of the auth API call."""

from __future__ import annotations

from shared.auth.audit import Audit
from shared.auth.clients.accounts import ClientAccounts
from shared.auth.keyring import TableKeyring
from shared.auth.roles.accounts import RoleAccounts
from shared.auth.sign_in.openid import SignIn, WorkloadSignIn
from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class AuthServices:
    """Clients, roles, scopes, and signing in."""

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
