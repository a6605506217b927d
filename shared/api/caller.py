"""Who sent a request, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from shared.api import scopes as scope_rules
from shared.api.scopes import Expression, ScopeSet
from shared.base.errors import InsufficientScopes
from shared.base.frozen import dataclass
from shared.base.shares import NAMELESS, Share

_MAX_LISTED = 10_000
"""The most characters of a list of scopes in a message: a task may name very many."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The sender of a request. `client_id` is None without credentials; `expires` is None if these never end."""

    client_id: str | None
    scopes: ScopeSet
    """The caller's scopes with all that roles grant (expanded), in normal form."""
    expires: datetime | None = None
    share: Share = NAMELESS
    """The share that the call counts for: the one in whose name it is made."""
    payload_hash: str = ""
    """Hash of the body as the request was signed with it; empty if it was signed without one."""

    def satisfies(self, expression: Expression) -> bool:
        """Returns whether this caller may do what needs the expression."""
        return scope_rules.satisfies(self.scopes, expression)

    def require(self, expression: Expression) -> None:
        """Raises InsufficientScopes, naming what is missing but not what is held (contract 11.7)."""
        lacking = scope_rules.missing(self.scopes, expression)
        if lacking is None:
            return
        who = f"Client ID {self.client_id}" if self.client_id is not None else "Anonymous"
        raise InsufficientScopes(
            f"{who} does not have sufficient scopes and is missing the following scopes:\n\n"
            f"```\n{_cut_expression(lacking)}\n```\n\n"
            "This request requires the caller to satisfy the following scope expression:\n\n"
            f"```\n{_cut_expression(expression)}\n```"
        )


def _cut_expression(expression: Expression) -> str:
    text = scope_rules.describe(expression)
    return text if len(text) <= _MAX_LISTED else f"{text[:_MAX_LISTED]}\n…"


class Verifier(Protocol):
    """Finds out who sent a request."""

    async def caller(
        self, method: str, targets: Sequence[str], headers: Mapping[str, str], body: bytes | None
    ) -> Caller:
        """Finds out who sent a request, as `Authenticator.caller` does."""


class Authenticate(Protocol):
    """Finds out who sent the request at hand."""

    async def __call__(self, verifier: Verifier | None = None) -> Caller:
        """Authenticates the request with the given verifier, by default that of the deployment. Raises
        AuthenticationFailed, StorageUnavailable."""
