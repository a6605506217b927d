"""What the endpoints of the auth API call."""

from __future__ import annotations

from shared.auth.keyring import TableKeyring
from shared.auth.openid import SignIn, WorkloadSignIn
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.settings import Settings
from shared.usecases.audit import Audit
from shared.usecases.clients import ClientAccounts
from shared.usecases.roles import RoleAccounts


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
    """None where no OpenID Connect provider is set up."""
    workload_sign_in: WorkloadSignIn | None
    """None where no issuer of ID tokens of workloads is set up."""
