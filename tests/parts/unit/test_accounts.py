"""Clients in a table: who may change them, and what is shown of them."""

from datetime import timedelta

import pytest

from shared.auth.clients.rows import TABLE as CLIENTS
from shared.auth.clients.rows import ClientStore
from shared.base.dates import format_date
from shared.base.errors import InputError, InsufficientScopes, RequestConflict, ResourceNotFound
from shared.store.counting import Kind
from shared.store.expiring import ExpiryStore
from shared.store.interface import StorageUnavailable
from tests.parts.twin import Fail, MemoryStorage, Phase
from tests.parts.unit.accounts import ANYTHING, Deployment, client, holding, process, role


@pytest.fixture
def here(twin: MemoryStorage) -> Deployment:
    return process(twin)


async def test_a_client_from_creation_to_removal(here: Deployment, twin: MemoryStorage) -> None:
    await here.roles.make_role("r", role("from-role"), ANYTHING)
    now = format_date(twin.clock.now())
    created = await here.clients.make_client("project/x", client(twin), ANYTHING)
    token = created.pop("accessToken")
    assert created == {
        "clientId": "project/x",
        "expires": format_date(twin.clock.now() + timedelta(days=1)),
        "deleteOnExpiration": False,
        "description": "a client",
        "created": now,
        "lastModified": now,
        "lastDateUsed": now,
        "lastRotated": now,
        "scopes": ["a", "assume:r"],
        "expandedScopes": ["a", "assume:r", "from-role"],
        "disabled": False,
    }
    assert await here.clients.find_client("project/x") == created
    assert await here.clients.client_page("project/", start="", limit=10) == ([created], None)
    known = await here.keyring.client("project/x")
    assert known is not None
    assert known.access_token == token
    await here.clients.remove_client("project/x")
    await here.clients.remove_client("project/x")
    assert await here.keyring.client("project/x") is None
    with pytest.raises(ResourceNotFound):
        await here.clients.find_client("project/x")


async def test_a_repeat_of_create_client_is_the_same_call(here: Deployment, twin: MemoryStorage) -> None:
    request = client(twin)
    created = await here.clients.make_client("x", request, ANYTHING)
    twin.clock.advance(15 * 60)
    assert await here.clients.make_client("x", request, ANYTHING) == created
    for other in (client(twin, description="other"), client(twin, scopes=["a"]), client(twin, deleteOnExpiration=True)):
        with pytest.raises(RequestConflict):
            await here.clients.make_client("x", other, ANYTHING)
    twin.clock.advance(1)
    with pytest.raises(RequestConflict):
        await here.clients.make_client("x", request, ANYTHING)


async def test_a_create_whose_answer_was_lost_gives_the_same_token(here: Deployment, twin: MemoryStorage) -> None:
    twin.gate = Fail(lambda call: call.target == CLIENTS and call.kind is Kind.TABLE_WRITE, Phase.AFTER)
    with pytest.raises(StorageUnavailable):
        await here.clients.make_client("x", client(twin), ANYTHING)
    created = await here.clients.make_client("x", client(twin), ANYTHING)
    known = await here.keyring.client("x")
    assert known is not None
    assert known.access_token == created["accessToken"]


async def test_a_client_with_scopes_beyond_the_callers_is_refused(here: Deployment, twin: MemoryStorage) -> None:
    with pytest.raises(InsufficientScopes):
        await here.clients.make_client("x", client(twin), holding("a"))
    await here.clients.make_client("x", client(twin, scopes=["a", "b:*"]), ANYTHING)
    with pytest.raises(InsufficientScopes):
        await here.clients.update("x", client(twin, scopes=["a", "c"]), holding("a", "b:*"))
    updated = await here.clients.update("x", client(twin, scopes=["b:1", "c"]), holding("c"))
    assert updated["scopes"] == ["b:1", "c"]
    kept = await here.clients.update("x", client(twin, scopes=..., description="new"), holding())
    assert (kept["scopes"], kept["description"]) == (["b:1", "c"], "new")


async def test_switching_off_and_a_new_token(here: Deployment, twin: MemoryStorage) -> None:
    created = await here.clients.make_client("x", client(twin), ANYTHING)
    assert (await here.clients.set_disabled("x", True))["disabled"] is True
    known = await here.keyring.client("x")
    assert known is not None
    assert known.disabled
    assert (await here.clients.set_disabled("x", False))["disabled"] is False
    twin.clock.advance(5)
    reset = await here.clients.reset_access_token("x")
    assert reset["accessToken"] != created["accessToken"]
    assert reset["lastRotated"] == reset["lastModified"] == format_date(twin.clock.now())
    known = await here.keyring.client("x")
    assert known is not None
    assert known.access_token == reset["accessToken"]


@pytest.mark.parametrize("client_id", ["root", "static/other"])
async def test_static_clients_are_changed_in_the_settings(
    here: Deployment, twin: MemoryStorage, client_id: str
) -> None:
    for call in (
        here.clients.make_client(client_id, client(twin), ANYTHING),
        here.clients.update(client_id, client(twin), ANYTHING),
        here.clients.set_disabled(client_id, True),
        here.clients.reset_access_token(client_id),
        here.clients.remove_client(client_id),
    ):
        with pytest.raises(InputError):
            await call


async def test_what_does_not_exist(here: Deployment, twin: MemoryStorage) -> None:
    for call in (
        here.clients.update("x", client(twin), ANYTHING),
        here.clients.set_disabled("x", True),
        here.clients.reset_access_token("x"),
        here.roles.find_role("r"),
        here.roles.update("r", role("a"), ANYTHING),
    ):
        with pytest.raises(ResourceNotFound):
            await call


async def test_bad_requests(here: Deployment, twin: MemoryStorage) -> None:
    with pytest.raises(InputError):
        await here.clients.make_client("x" * 501, client(twin), ANYTHING)
    with pytest.raises(InputError):
        await here.clients.make_client("x", client(twin, scopes=["a**"]), ANYTHING)
    with pytest.raises(InputError):
        await here.clients.update("x", client(twin, scopes=["a**"]), ANYTHING)
    with pytest.raises(InputError):
        await here.roles.make_role("x", role("a**"), ANYTHING)
    with pytest.raises(InputError, match="too large"):
        await here.clients.make_client("x", client(twin, scopes=[f"{n:0500}" for n in range(2000)]), ANYTHING)
    with pytest.raises(InputError, match="too large"):
        await here.roles.make_role("x", role(*(f"{n:0500}" for n in range(2000))), ANYTHING)
    with pytest.raises(InputError, match="too large"):
        await here.roles.make_role("#" * 200, role("a"), ANYTHING)
    assert twin.tables.rows(CLIENTS) == []


async def test_an_expired_client_is_removed_if_it_asked_for_that(here: Deployment, twin: MemoryStorage) -> None:
    store = ClientStore(twin.tables)
    expires = twin.clock.now() + timedelta(hours=2)
    request = client(twin, expires=format_date(expires), deleteOnExpiration=True)
    await here.clients.make_client("project/x", request, ANYTHING)
    await here.clients.make_client("kept", client(twin, expires=format_date(expires)), ANYTHING)
    due = await ExpiryStore(twin.storage, twin.clock.now).due(f"{expires + timedelta(minutes=30):%Y-%m-%dT%H}")
    assert [(row.kind, row.values["clientId"]) for row in due] == [("client", "project/x")]
    assert not await store.delete_expired("project/x", twin.clock.now())
    twin.clock.advance(2 * 3600)
    assert not await store.delete_expired("kept", twin.clock.now())
    assert await store.delete_expired("project/x", twin.clock.now())
    assert await store.delete_expired("project/x", twin.clock.now())
    assert await store.load("project/x") is None
    assert await store.load("kept") is not None


async def test_pages_of_clients(here: Deployment, twin: MemoryStorage) -> None:
    names = [f"p/{n}" for n in range(7)]
    for name in [*names, "other", "q/1", "p"]:
        await here.clients.make_client(name, client(twin), ANYTHING)
    found: list[str] = []
    start: str | None = ""
    while start is not None:
        page, start = await here.clients.client_page("p/", start=start, limit=3)
        found += [one["clientId"] for one in page]
        assert len(page) <= 3
    assert found == names


async def test_static_clients_are_known(here: Deployment, twin: MemoryStorage) -> None:
    """Static clients are listed among the others in the order of ids, whatever the size of pages."""
    for name in ("a/1", "root2", "roo", "z"):
        await here.clients.make_client(name, client(twin), ANYTHING)
    root = await here.clients.find_client("root")
    assert (root["scopes"], root["expandedScopes"], root["disabled"]) == (["*"], ["*"], False)
    assert "accessToken" not in root
    assert root["expires"] > format_date(twin.clock.now())
    for limit in (1, 2, 3, 1000):
        found: list[str] = []
        start: str | None = ""
        while start is not None:
            page, start = await here.clients.client_page("", start=start, limit=limit)
            assert len(page) <= limit
            found += [one["clientId"] for one in page]
        assert found == ["a/1", "roo", "root", "root2", "z"]
    page, _ = await here.clients.client_page("root", start="", limit=10)
    assert [one["clientId"] for one in page] == ["root", "root2"]
    assert (await here.clients.client_page("a", start="", limit=10))[0][0]["clientId"] == "a/1"


async def test_a_page_of_clients_with_very_many_scopes_ends_early(here: Deployment, twin: MemoryStorage) -> None:
    for number in range(2):
        await here.roles.make_role(f"large-{number}", role(*(f"{number}{n:0>200}" for n in range(2000))), ANYTHING)
    for number in range(8):
        await here.clients.make_client(f"x/{number}", client(twin, scopes=["assume:large-*"]), ANYTHING)
    page, resume = await here.clients.client_page("x/", start="", limit=1000)
    assert 4 <= len(page) < 8
    rest, _ = await here.clients.client_page("x/", start=resume or "", limit=1000)
    assert [one["clientId"] for one in [*page, *rest]][:8] == [f"x/{number}" for number in range(8)]


async def test_scopes_that_expand_to_too_much_are_refused(here: Deployment, twin: MemoryStorage) -> None:
    await here.roles.make_role("r-*", role(*(f"x{n}:<..>" for n in range(1000))), ANYTHING)
    scopes = [f"assume:r-{n}" for n in range(50)]
    with pytest.raises(InputError, match="expand through roles"):
        await here.clients.make_client("x", client(twin, scopes=scopes), ANYTHING)
    await here.clients.make_client("x", client(twin, scopes=scopes[:5]), ANYTHING)
    with pytest.raises(InputError, match="expand through roles"):
        await here.clients.update("x", client(twin, scopes=scopes), ANYTHING)
    # Roles may grow later: then the client can still be looked at, and mended.
    await here.roles.update("r-*", role(*(f"x{n}:<..>" for n in range(8000))), ANYTHING)
    assert (await here.clients.find_client("x"))["expandedScopes"] == sorted(scopes[:5])
    assert (await here.clients.update("x", client(twin, scopes=...), ANYTHING))["scopes"] == scopes[:5]
    mended = await here.clients.update("x", client(twin, scopes=["assume:r-1"]), ANYTHING)
    assert len(mended["expandedScopes"]) == 8001
