"""The Roles table: all roles in one partition, with a header that every change moves on (design 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from shared.auth.clients.rows import pack_scopes, unpack_scopes
from shared.auth.roles.expansion import Roles
from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.retrying import LOST_RACE_FOR_ROLES
from shared.runtime import Runtime, attempts
from shared.store.columns import Columns
from shared.store.interface import (
    Create,
    Delete,
    Merge,
    Operation,
    Row,
    StorageUnavailable,
    Tables,
    TransactionRefused,
    Upsert,
    Value,
)
from shared.store.partitions import rows_of

TABLE = "Roles"
_PARTITION = "roles"
_HEADER = "header"
HEADER = (_PARTITION, _HEADER)
"""Partition and row key of the header, the row that every change of a role rewrites."""
_ROLE = "role~"
_UNSAFE = re.compile(r"[^A-Za-z0-9!$&()*+,.:;<=>@\[\]^_`{|}-]")


class RolesChanged(ServiceError):
    """Somebody else has changed a role since the roles were read."""


@dataclass(frozen=True, kw_only=True)
class RoleRecord:
    """All that is stored of a role."""

    role_id: str
    scopes: tuple[str, ...]
    description: str
    created: datetime
    last_modified: datetime


@dataclass(frozen=True, kw_only=True)
class RoleSnapshot:
    """All roles at one time. A change that is decided on it is refused if roles were changed since it was read."""

    records: Mapping[str, RoleRecord]
    etag: str | None
    """ETag of the header row; None before the first change."""
    roles: Roles

    @classmethod
    def of(cls, records: Mapping[str, RoleRecord], etag: str | None) -> RoleSnapshot:
        return cls(
            records=records, etag=etag, roles=Roles({role_id: record.scopes for role_id, record in records.items()})
        )


class RoleStore:
    """Reads and writes the Roles table. Everything may raise StorageUnavailable."""

    def __init__(self, tables: Tables, runtime: Runtime | None = None) -> None:
        self._tables = tables
        self._runtime = runtime or Runtime()

    async def load(self) -> RoleSnapshot:
        """Returns a consistent snapshot of all roles. Raises also if roles change too often to read one. One page is a
        snapshot. Several pages are one only if the header, which every change rewrites, is the same before and after. A
        mixture of roles from different times could grant scopes that were never granted together."""
        async for _ in attempts(self._runtime, LOST_RACE_FOR_ROLES):
            pages, rows = 0, list[Row]()  # the header comes first
            async for page in rows_of(self._tables, TABLE, _PARTITION, start=_HEADER, end="role\x7f"):
                pages += 1
                rows.extend(page)
            etag = next((row.etag for row in rows if row.key == _HEADER), None)
            header = None if pages == 1 else await self._tables.get_row(TABLE, _PARTITION, _HEADER)
            if pages == 1 or etag == (header and header.etag):
                roles = (row.values for row in rows if row.key.startswith(_ROLE))
                records = [_COLUMNS.decode(each, scopes=unpack_scopes(each)) for each in roles]
                return RoleSnapshot.of({record.role_id: record for record in records}, etag)
        raise StorageUnavailable("roles are being changed all the time")

    async def write_role_row(self, snapshot: RoleSnapshot, record: RoleRecord) -> None:
        """Adds or replaces a role. Raises RolesChanged, and ValueError when it is too large for a row."""
        values = {**_COLUMNS.encode(record), **pack_scopes(record.scopes)}
        await self._write_with_header(snapshot, Upsert(role_key(record.role_id), values))

    async def delete_role_row(self, snapshot: RoleSnapshot, role_id: str) -> None:
        """Removes a role of the snapshot. Raises RolesChanged."""
        await self._write_with_header(snapshot, Delete(role_key(role_id)))

    async def _write_with_header(self, snapshot: RoleSnapshot, operation: Operation) -> None:
        """Writes in one transaction with the header, so that only one change of roles succeeds at a time: whether a
        change is allowed (cycles) depends on all roles."""
        note: dict[str, Value] = {"lastChanged": operation.key}
        header = Create(_HEADER, note) if snapshot.etag is None else Merge(_HEADER, note, snapshot.etag)
        try:
            await self._tables.transact(TABLE, _PARTITION, [header, operation])
        except TransactionRefused:
            raise RolesChanged from None


def role_key(role_id: str) -> str:
    """Returns the row key of a role: its id, with every character that keys forbid, or that escaping uses, as a tilde
    and hexadecimal digits."""
    return _ROLE + _UNSAFE.sub(lambda match: f"~{ord(match[0]):02x}", role_id)


_COLUMNS = Columns(RoleRecord, without={"scopes"})
