"""Blobs through the SDK, on Azurite."""

import asyncio

import pytest

from shared.store.counting import Kind, counting
from shared.store.interface import BlobMissing, BlobProperties, Blobs, Storage

_TYPE = "application/json; charset=utf-8"


@pytest.fixture
def blobs(azure_storage: Storage) -> Blobs:
    """Blobs without any container."""
    return azure_storage.blobs


def _seen(properties: BlobProperties | None) -> tuple[int, str, str] | None:
    if properties is None:
        return None
    return properties.length, properties.content_type, properties.content_encoding


@pytest.mark.parametrize("path", ["a", "task/0/hash", "odd %41?#&+ é'/x", "a//b"])
@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 5_000], ids=["empty", "small", "large"])
async def test_contents_come_back_as_they_went(blobs: Blobs, path: str, content: bytes) -> None:
    await blobs.upload("blobs", path, content, content_type=_TYPE)
    assert await blobs.download("blobs", path) == content
    assert await blobs.download("blobs", path, limit=3) == content[:3]
    assert await blobs.download("blobs", path, limit=10_000_000) == content
    assert _seen(await blobs.properties("blobs", path)) == (len(content), _TYPE, "")
    assert await blobs.list_paths("blobs", "") == [path]


async def test_an_upload_replaces(blobs: Blobs) -> None:
    await blobs.upload("blobs", "a", b"old", content_type="text/plain", content_encoding="gzip")
    before = await blobs.properties("blobs", "a")
    with counting() as operations:
        await blobs.upload("blobs", "a", b"newer", content_type=_TYPE)
    after = await blobs.properties("blobs", "a")
    assert operations.counts == {Kind.BLOB_WRITE: 1}
    assert _seen(after) == (5, _TYPE, "")
    assert before
    assert after
    assert before.etag != after.etag


async def test_blocks_are_invisible_until_committed(blobs: Blobs) -> None:
    await blobs.put_block("blobs", "a", "1", b"one ")
    await blobs.put_block("blobs", "a", "2", b"old")
    await blobs.put_block("blobs", "a", "2", b"two")
    assert await blobs.properties("blobs", "a") is None
    with pytest.raises(BlobMissing):
        await blobs.download("blobs", "a")
    assert await blobs.list_paths("blobs", "") == []
    assert not await blobs.commit_blocks("blobs", "a", ["1", "3"], content_type=_TYPE, content_encoding="")
    assert await blobs.commit_blocks("blobs", "a", ["1", "2"], content_type=_TYPE, content_encoding="br")
    assert await blobs.download("blobs", "a") == b"one two"
    assert _seen(await blobs.properties("blobs", "a")) == (7, _TYPE, "br")
    assert await blobs.commit_blocks("blobs", "a", ["1", "2"], content_type=_TYPE, content_encoding="br")


async def test_only_new_blocks_replace_what_was_committed(blobs: Blobs) -> None:
    async def commit() -> bool:
        return await blobs.commit_blocks(
            "blobs", "a", ["1"], content_type="text/plain", content_encoding="", only_new=True
        )

    assert not await commit()
    await blobs.put_block("blobs", "a", "1", b"old")
    assert await commit()
    assert await blobs.set_headers("blobs", "a", content_type="text/plain", content_encoding="gzip")
    assert not await commit()
    assert _seen(await blobs.properties("blobs", "a")) == (3, "text/plain", "gzip")
    await blobs.put_block("blobs", "a", "1", b"newer")
    assert await commit()
    assert await blobs.download("blobs", "a") == b"newer"


async def test_headers_change(blobs: Blobs) -> None:
    await blobs.upload("blobs", "a", b"x", content_type="text/plain")
    await blobs.set_headers("blobs", "a", content_type=_TYPE, content_encoding="gzip")
    assert _seen(await blobs.properties("blobs", "a")) == (1, _TYPE, "gzip")
    assert await blobs.set_headers("blobs", "a", content_type="text/plain", content_encoding="")
    found = await blobs.properties("blobs", "a")
    assert found
    assert _seen(found) == (1, "text/plain", "")
    assert await blobs.set_headers("blobs", "a", content_type=_TYPE, content_encoding="br", etag=found.etag)
    assert not await blobs.set_headers("blobs", "a", content_type=_TYPE, content_encoding="", etag=found.etag)
    assert _seen(await blobs.properties("blobs", "a")) == (1, _TYPE, "br")


@pytest.mark.parametrize("container", ["blobs", "nothing"])
async def test_a_blob_that_is_not_there(blobs: Blobs, container: str) -> None:
    await blobs.upload("blobs", "a", b"x", content_type=_TYPE)
    with pytest.raises(BlobMissing):
        await blobs.download(container, "b")
    with pytest.raises(BlobMissing):
        await blobs.download(container, "b", limit=1)
    assert not await blobs.set_headers(container, "b", content_type=_TYPE, content_encoding="")
    assert await blobs.properties(container, "b") is None
    await blobs.delete(container, "b")
    assert await blobs.list_paths(container, "b") == []


async def test_paths_are_listed_by_prefix_up_to_a_limit(blobs: Blobs) -> None:
    paths = ["t/0/a", "t/0/b", "t/1/a", "u"]
    await asyncio.gather(*(blobs.upload("blobs", path, b"x", content_type=_TYPE) for path in paths))
    assert await blobs.list_paths("blobs", "") == paths
    assert await blobs.list_paths("blobs", "t/0/") == ["t/0/a", "t/0/b"]
    assert await blobs.list_paths("blobs", "t/", limit=2) == ["t/0/a", "t/0/b"]
    assert await blobs.list_paths("blobs", "x") == []
