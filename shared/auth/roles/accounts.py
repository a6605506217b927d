"""Roles as the auth API manages them: callers grant only what they have, and no role leads back to itself."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from shared.api.scopes import ScopeSet
from shared.auth.audit import Entry, describe, note_change
from shared.auth.clients.accounts import Authorise, Description, refuse_changed, refuse_double_stars
from shared.auth.keyring import TableKeyring
from shared.auth.roles import rules as role_rules
from shared.auth.roles.expansion import ASSUME, ExpansionTooLarge
from shared.auth.roles.rows import RoleRecord, RolesChanged, RoleSnapshot, RoleStore
from shared.auth.roles.rules import RolesRefused
from shared.base import bounds
from shared.base.dates import format_date, parse_date
from shared.base.errors import InputError, RequestConflict, ResourceNotFound, ServiceUnavailable
from shared.base.frozen import dataclass, replace
from shared.base.retrying import LOST_RACE_FOR_ROLES
from shared.base.types import Closed, Scope, Unique
from shared.runtime import Runtime, attempts

T = TypeVar("T")


class CreateRoleRequest(Closed):
    """The purpose of a role, and the scopes that it grants to clients that assume it."""

    scopes: Unique[Scope]
    description: Description


@dataclass(frozen=True, eq=False)
class RoleAccounts:
    """The roles. Everything may raise StorageUnavailable."""

    _roles: RoleStore
    _keyring: TableKeyring
    _runtime: Runtime

    async def all(self) -> list[dict[str, Any]]:
        """Returns every role, by id. Raises InputError if they are too many for one answer."""
        found, resume = await self.role_page("", None, text=bounds.SCOPES_WITHOUT_PAGES)
        if resume is not None:
            raise InputError("the roles are too many for one answer: list them with listRoles2 and a limit")
        return found

    async def role_page(
        self, start: str, limit: int | None, *, text: int = bounds.PAGE_OF_SCOPES
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Roles in the order of their ids, beginning at `start`, and the id at which the next page starts. Without a
        limit, all of them. In any case, a page ends early if its scopes have too many characters."""
        snapshot = await self._roles.load()
        found: list[dict[str, Any]] = []
        for role_id in _from(snapshot, start):
            if len(found) == limit or text <= 0:
                return found, role_id
            found.append(_described(snapshot, snapshot.records[role_id]))
            text -= sum(map(len, found[-1]["expandedScopes"])) + sum(map(len, found[-1]["scopes"]))
            await asyncio.sleep(0)  # lets other calls run: expansions take long
        return found, None

    async def ids(self, start: str, limit: int | None) -> tuple[list[str], str | None]:
        """Returns a page as `role_page` does, but only the ids."""
        ids = _from(await self._roles.load(), start)
        if limit is None or len(ids) <= limit:
            return ids, None
        return ids[:limit], ids[limit]

    async def find_role(self, role_id: str) -> dict[str, Any]:
        """Returns one role. Raises ResourceNotFound."""
        snapshot = await self._roles.load()
        return _described(snapshot, _existing(snapshot, role_id))

    async def make_role(
        self, role_id: str, request: CreateRoleRequest, authorise: Authorise, entry: Entry | None = None
    ) -> dict[str, Any]:
        """Makes a role; a repeat returns the same. Raises InsufficientScopes, InputError, RequestConflict."""
        scopes = _scopes_of(request)
        describe(entry, old=(), new=scopes, others={})
        await authorise(scopes)
        tried: list[RoleRecord] = []

        async def attempt(snapshot: RoleSnapshot) -> dict[str, Any]:
            existing = snapshot.records.get(role_id)
            note_change(entry, existing in tried)
            if existing is not None:
                if (existing.description, existing.scopes) != (request.description, scopes):
                    raise RequestConflict(f"There is a role {role_id} already, and it is another one")
                return _described(snapshot, existing)
            now = parse_date(format_date(self._runtime.now()))
            made = RoleRecord(
                role_id=role_id, scopes=scopes, description=request.description, created=now, last_modified=now
            )
            tried.append(made)
            return await self._store_role(snapshot, made, entry)

        return await self._change_role(attempt)

    async def update(
        self,
        role_id: str,
        request: CreateRoleRequest,
        authorise: Authorise,
        entry: Entry | None = None,
        *,
        read: str = "",
    ) -> dict[str, Any]:
        """Changes a role, if it was last modified at the time `read`, where that is given. The caller needs only the
        scopes that are new to the role. Raises ResourceNotFound, RequestConflict, InsufficientScopes, InputError."""

        scopes, tried = _scopes_of(request), list[RoleRecord]()

        async def attempt(snapshot: RoleSnapshot) -> dict[str, Any]:
            note_change(entry, None if tried else False)
            record = _existing(snapshot, role_id)
            if record not in tried:
                refuse_changed(record.last_modified, read)
            try:
                had = snapshot.roles.expand(record.scopes)
            except ExpansionTooLarge:
                had = ScopeSet(record.scopes)  # what the role grants before the change, as far as it can be told
            others = {"description": record.description != request.description}
            describe(entry, old=record.scopes, new=scopes, others=others)
            await authorise([scope for scope in scopes if scope not in had])
            changed = replace(
                record,
                scopes=scopes,
                description=request.description,
                last_modified=parse_date(format_date(self._runtime.now())),
            )
            # The answer to a write of our own may have been lost: then what is there is what it has written.
            happens = record in tried or changed != replace(record, last_modified=changed.last_modified)
            tried.append(changed)
            return await self._store_role(snapshot, changed, entry, happens=happens)

        return await self._change_role(attempt)

    async def remove_role(self, role_id: str, entry: Entry | None = None) -> None:
        """Removes a role. No error if it does not exist."""

        async def attempt(snapshot: RoleSnapshot) -> None:
            if role_id in snapshot.records:
                note_change(entry, None)  # None: an earlier attempt may have removed the role
                await self._roles.delete_role_row(snapshot, role_id)
                note_change(entry, True)

        await self._change_role(attempt)

    async def _store_role(
        self, snapshot: RoleSnapshot, record: RoleRecord, entry: Entry | None, *, happens: bool = True
    ) -> dict[str, Any]:
        following = RoleSnapshot.of({**snapshot.records, record.role_id: record}, None)
        try:
            for _piece in role_rules.check(following.roles):
                await asyncio.sleep(0)  # lets other calls run: checking very many roles takes long
        except RolesRefused as refused:
            raise InputError(str(refused)) from None
        note_change(entry, None)
        try:
            await self._roles.write_role_row(snapshot, record)
        except ValueError as error:
            note_change(entry, False)
            raise InputError(f"the role is too large: {error}") from None
        note_change(entry, happens)
        return _described(following, record)

    async def _change_role(self, attempt: Callable[[RoleSnapshot], Awaitable[T]]) -> T:
        """Reads all roles, decides, and writes on condition that nobody has changed them since; begins again if so."""
        async for _ in attempts(self._runtime, LOST_RACE_FOR_ROLES):
            try:
                return await attempt(await self._roles.load())
            except RolesChanged:
                continue
            finally:
                self._keyring.forget_roles()  # also when the answer was lost: the change may stand
        raise ServiceUnavailable("roles are being changed by others; send the call again")


def _scopes_of(request: CreateRoleRequest) -> tuple[str, ...]:
    refuse_double_stars(request.scopes)
    return tuple(sorted(request.scopes))


def _from(snapshot: RoleSnapshot, start: str) -> list[str]:
    return snapshot.roles.ids[bisect_left(snapshot.roles.ids, start) :]


def _existing(snapshot: RoleSnapshot, role_id: str) -> RoleRecord:
    record = snapshot.records.get(role_id)
    if record is None:
        raise ResourceNotFound(f"Role {role_id} not found")
    return record


def _described(snapshot: RoleSnapshot, record: RoleRecord) -> dict[str, Any]:
    return {
        "roleId": record.role_id,
        "scopes": list(record.scopes),
        "description": record.description,
        "created": format_date(record.created),
        "lastModified": format_date(record.last_modified),
        "expandedScopes": snapshot.roles.shown([ASSUME + record.role_id]),
    }
