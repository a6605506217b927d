"""findArtifactFromTask redirects straight to what anonymous callers may read, else to the queue (contract 18.5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import urlsplit

import pytest

from shared.api.caller import Caller, Verifier
from shared.api.endpoint import Call
from shared.api.scopes import ScopeSet
from shared.app.apis import INDEX
from shared.auth import hawk
from shared.auth.roles.accounts import CreateRoleRequest
from shared.index import endpoints as index
from shared.index.rules import IndexEntry
from tests.promises.simulator.artifact_scenarios import artifact, reference
from tests.promises.simulator.situations import A, running
from tests.promises.simulator.world import World

PATH = "latest.app"
ENDPOINT = next(each for each in INDEX.endpoints if each.name == "findArtifactFromTask")
PAGE = "https://example.com/1"


async def location(world: World, name: str, *scopes: str) -> str:
    """Returns where the endpoint's handler redirects a caller with these scopes."""

    async def authenticate(verifier: Verifier | None = None) -> Caller:
        return Caller(client_id="somebody", scopes=ScopeSet(scopes))

    call = Call(endpoint=ENDPOINT, params={"indexPath": PATH, "name": name}, authenticate=authenticate)
    answer = await index.find_artifact(world.services, call)
    url = answer.headers["location"]
    assert (answer.status, answer.body) == (303, f"See Other. Redirecting to {url}".encode())
    return url


async def a_build(world: World, *scopes: str) -> None:
    """Lets A run and be found at the path; anonymous callers have these scopes."""
    await running(world)
    now = world.clock.now()
    entry = IndexEntry(path=PATH, task_id=A, rank=0, data={}, expires=now + timedelta(days=1), at=now)
    await world.services.index.insert(entry)
    authorise = AsyncMock()
    await world.services.roles.make_role("anonymous", CreateRoleRequest(scopes=list(scopes), description=""), authorise)


def queue_address(name: str) -> str:
    return f"https://tc.example.com/api/queue/v1/task/{A}/artifacts/{name}"


@pytest.mark.parametrize("scope", ["queue:get-artifact:built/page", "queue:get-artifact:*"])
def test_what_anonymous_callers_may_read_is_reached_directly(scope: str) -> None:
    world = World()

    async def story() -> None:
        await a_build(world, scope)
        await world.services.artifacts.creation.create_or_find(A, 0, reference(world, PAGE, name="built/page"))
        assert await location(world, "built/page") == PAGE

    world.run(story())


def test_what_is_not_public_is_left_to_the_queue_with_a_signature() -> None:
    world = World()

    async def story() -> None:
        await a_build(world, "queue:get-artifact:public/*")
        assert (await location(world, "secret/key")).startswith(f"{queue_address('secret%2Fkey')}?bewit=")

    world.run(story())


def authority(address: str) -> Any:
    """Returns what the signature of an address allows at most."""
    signed, _ = hawk.parse_bewit(f"{urlsplit(address).path}?{urlsplit(address).query}")
    return hawk.parse_ext(signed.ext)["authorizedScopes"]


def test_a_signature_reads_what_was_asked_for_and_nothing_that_its_links_lead_to() -> None:
    """A signature reads what was asked for, and nothing that its links lead to (contract 18.5)."""
    world = World()

    async def story() -> None:
        await a_build(world, "queue:get-artifact:public/*")
        create = world.services.artifacts.creation.create_or_find
        await create(A, 0, reference(world, PAGE, name="secret/page"))
        await create(A, 0, artifact(world, "link", "shared/link", details={"artifact": "secret/page"}))
        address = await location(world, "shared/link", "queue:get-artifact:shared/*")
        assert authority(address) == ["queue:get-artifact:shared/link"]
        assert authority(await location(world, "shared/absent", "queue:get-artifact:shared/*")) == [
            "queue:get-artifact:shared/absent"
        ]

    world.run(story())


def test_a_signature_follows_the_links_that_its_caller_may_follow() -> None:
    world = World()

    async def story() -> None:
        await a_build(world)
        create = world.services.artifacts.creation.create_or_find
        await create(A, 0, reference(world, PAGE, name="secret/page"))
        await create(A, 0, artifact(world, "link", "secret/one", details={"artifact": "secret/page"}))
        await create(A, 0, artifact(world, "link", "secret/two", details={"artifact": "secret/one"}))
        names = ["secret/two", "secret/one", "secret/page"]
        expected = [f"queue:get-artifact:{name}" for name in names]
        assert authority(await location(world, "secret/two", "queue:get-artifact:secret/*")) == expected

    world.run(story())
