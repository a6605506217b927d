"""Clients and roles on real tables: keys of every allowed character, long lists, one change of roles at a time."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from shared.auth.clients.rows import ClientChanged, ClientRecord, ClientStore
from shared.auth.roles.rows import RoleRecord, RolesChanged, RoleStore
from shared.base.vault import Vault
from shared.store.interface import Storage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VAULT = Vault([base64.urlsafe_b64encode(b"k" * 32).decode()])
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


def record(client_id: str, scopes: tuple[str, ...] = ("a",)) -> ClientRecord:
    return ClientRecord(
        client_id=client_id,
        sealed_token=VAULT.seal(client_id, "some-token-0123456789abcdef"),
        description="a client\nof two lines, ä and 😀",
        scopes=scopes,
        expires=NOW + timedelta(days=1),
        disabled=False,
        delete_on_expiration=True,
        created=NOW,
        last_modified=NOW,
        last_date_used=NOW,
        last_rotated=NOW,
    )


async def test_clients_are_created_changed_and_read_by_etag(azure_storage: Storage) -> None:
    store = ClientStore(azure_storage.tables)
    assert await store.load("x") is None
    assert await store.client_row_page("", start="", limit=10) == ([], None)
    await store.delete_client_row("x")
    odd = "AZaz09!@/:.+|_-"
    many = tuple(f"secrets:get:{PRINTABLE}:{n}" for n in range(1000))
    created = await store.add_client_row(record(odd, many))
    assert await store.load(odd) == created
    with pytest.raises(ClientChanged):
        await store.add_client_row(record(odd))
    used = await store.mark_used(created, NOW + timedelta(hours=1), created.sealed_token)
    assert await store.load(odd) == used
    with pytest.raises(ClientChanged):
        await store.replace(created)
    shorter = await store.replace(record_of(used, ("b",)))
    assert await store.load(odd) == shorter
    assert not await store.delete_expired(odd, NOW)
    await store.delete_client_row(odd)
    assert await store.load(odd) is None


def record_of(current: ClientRecord, scopes: tuple[str, ...]) -> ClientRecord:
    changed = record(current.client_id, scopes)
    return ClientRecord(**{**vars(changed), "etag": current.etag})


def role(role_id: str, *scopes: str) -> RoleRecord:
    return RoleRecord(role_id=role_id, scopes=scopes, description="a role", created=NOW, last_modified=NOW)


async def test_roles_are_put_and_removed_by_etag(azure_storage: Storage) -> None:
    store = RoleStore(azure_storage.tables)
    empty = await store.load()
    assert not empty.records
    odd = role(PRINTABLE + "*", "a", f"x:<..>:{PRINTABLE}")
    await store.write_role_row(empty, odd)
    with pytest.raises(RolesChanged):
        await store.write_role_row(empty, role("second"))
    one = await store.load()
    assert one.records == {odd.role_id: odd}
    assert "a" in one.roles.expand([f"assume:{PRINTABLE}1"])
    await store.write_role_row(one, role("second", "b"))
    with pytest.raises(RolesChanged):
        await store.write_role_row(one, role("third"))
    with pytest.raises(RolesChanged):
        await store.delete_role_row(one, odd.role_id)
    await store.delete_role_row(await store.load(), odd.role_id)
    assert set((await store.load()).records) == {"second"}
