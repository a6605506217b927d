"""What a worker is told to send where: a block, a whole blob, parts of one (contract 6)."""

from __future__ import annotations

import base64
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.queue.artifacts.rules import Upload, part_id
from shared.queue.artifacts.upload_urls import SignedPut, UploadUrls
from shared.queue.artifacts.uploads import BLOCK
from tests.simulator.artifact_scenarios import CONTENT, STATED, artifact
from tests.simulator.situations import A
from tests.simulator.world import World

SIZE = len(CONTENT)
NAME = "public/a b.txt"


@pytest.fixture
def world() -> World:
    """Nothing is there."""
    return World()


def urls(world: World) -> UploadUrls:
    return world.services.artifacts.urls


def block_of(url: str) -> str | None:
    """The block that a URL writes, if it writes one."""
    query = parse_qs(urlsplit(url).query)
    assert query.get("comp", ["block"]) == ["block"]
    return base64.b64decode(query["blockid"][0]).decode() if "comp" in query else None


@pytest.mark.parametrize(("upload", "block"), [(Upload.DIRECT, BLOCK), (Upload.CLIENT, None)])
def test_one_put_is_of_a_block_or_of_the_blob(world: World, upload: Upload, block: str | None) -> None:
    wanted = artifact(world, "s3", NAME, upload=upload, **STATED)
    until = world.clock.now() + timedelta(minutes=45)
    (url,) = world.run(urls(world).put_url(A, 0, wanted, until))
    assert block_of(url) == block


def requests(world: World, sizes: list[int], **changes: object) -> list[SignedPut]:
    details = {"contentLength": SIZE, **changes}
    wanted = artifact(world, "blob", NAME, upload=Upload.CLIENT, details=details, encoding=changes.get("encoding", ""))
    (found,) = world.run(urls(world).requests(A, 0, wanted, sizes, world.clock.now() + timedelta(minutes=45)))
    return found


def test_a_whole_blob_is_put_with_what_it_is(world: World) -> None:
    (request,) = requests(world, [])
    assert block_of(request.url) is None
    assert request.headers == {
        "content-length": str(SIZE),
        "x-ms-blob-type": "BlockBlob",
        "x-ms-blob-content-type": "text/plain",
        "x-ms-blob-content-disposition": 'inline; filename="a b.txt"',
    }


def test_an_encoded_blob_is_as_long_as_what_is_transferred(world: World) -> None:
    (request,) = requests(world, [], encoding="gzip", transferLength=7)
    assert request.headers["content-length"] == "7"
    assert request.headers["x-ms-blob-content-encoding"] == "gzip"


def test_parts_are_blocks_in_their_order(world: World) -> None:
    found = requests(world, [5, 5, 1])
    assert [block_of(request.url) for request in found] == [part_id(number) for number in range(3)]
    assert [request.headers for request in found] == [{"content-length": size} for size in ("5", "5", "1")]
