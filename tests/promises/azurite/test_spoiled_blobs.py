"""What the holder of a URL for uploads does to a blob on Azurite leads to no failure of the service."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
import requests

from shared.store.interface import Storage

CONTENT = b"content"
PATH = "task/0/digest"
BLOCK = base64.b64encode(b"artifact").decode()


class Holder:
    """A client that has nothing but a signed URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def put(self, query: str = "", data: bytes = b"", **headers: str) -> requests.Response:
        """Sends a PUT to the URL, with additional query options."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await asyncio.to_thread(requests.put, f"{self._url}{query}", data=data, headers=named, timeout=30)
        assert answer.status_code < 300, answer.text
        return answer

    async def upload(self) -> None:
        """Uploads a block, which the URL is for."""
        await self.put(f"&comp=block&blockid={BLOCK}", CONTENT)

    async def lease(self) -> None:
        """Takes a lease that never ends."""
        await self.put("&comp=lease", x_ms_lease_action="acquire", x_ms_lease_duration="-1")

    async def snapshot(self) -> None:
        """Makes a snapshot, which keeps a plain deletion from succeeding."""
        await self.put("&comp=snapshot")

    async def append_blob(self) -> None:
        """Puts an append blob in the place of the blob."""
        await self.put(x_ms_blob_type="AppendBlob")

    async def page_blob(self) -> None:
        """Puts a page blob in the place of the blob."""
        await self.put(x_ms_blob_type="PageBlob", x_ms_blob_content_length="512")

    async def replace(self) -> None:
        """Replaces the blob with other content, by one request."""
        await self.put(data=b"other", x_ms_blob_type="BlockBlob")

    async def archive(self) -> None:
        """Archives the blob, so that no one can read it."""
        await self.put("&comp=tier", x_ms_access_tier="Archive")


async def holder(storage: Storage) -> Holder:
    now = datetime.now(UTC).replace(microsecond=0)
    minutes = timedelta(minutes=15)
    return Holder(await storage.access.write_blob("blobs", PATH, start=now - minutes, expiry=now + minutes))


async def commit(storage: Storage) -> bool:
    return await storage.blobs.commit_blocks(
        "blobs", PATH, ["artifact"], content_type="text/plain", content_encoding="", only_new=True
    )


Attack = Callable[[Holder], Awaitable[None]]
ON_A_BLOB: list[Attack] = [Holder.lease, Holder.snapshot, Holder.replace, Holder.archive]
IN_ITS_PLACE: list[Attack] = [Holder.append_blob, Holder.page_blob]


@pytest.mark.parametrize("attack", [*ON_A_BLOB, *IN_ITS_PLACE])
async def test_a_spoiled_blob_can_be_deleted(azure_storage: Storage, attack: Attack) -> None:
    spoiler = await holder(azure_storage)
    await spoiler.upload()
    assert await commit(azure_storage)
    await attack(spoiler)
    await spoiler.lease() if attack is Holder.snapshot else None
    await azure_storage.blobs.delete_blob("blobs", PATH)
    assert await azure_storage.blobs.list_paths("blobs", "") == []


@pytest.mark.parametrize("attack", [Holder.lease, Holder.snapshot])
async def test_what_was_uploaded_is_committed_despite_a_lease_or_a_snapshot(
    azure_storage: Storage, attack: Attack
) -> None:
    spoiler = await holder(azure_storage)
    await spoiler.upload()
    assert await commit(azure_storage)
    await spoiler.upload()
    await attack(spoiler)
    assert await commit(azure_storage)
    await spoiler.lease()
    assert await azure_storage.blobs.set_headers("blobs", PATH, content_type="text/plain", content_encoding="gzip")
    found = await azure_storage.blobs.properties("blobs", PATH)
    assert found
    assert (found.length, found.content_encoding) == (len(CONTENT), "gzip")


@pytest.mark.parametrize("attack", IN_ITS_PLACE)
async def test_another_type_of_blob_is_no_upload(azure_storage: Storage, attack: Attack) -> None:
    spoiler = await holder(azure_storage)
    await attack(spoiler)
    assert not await commit(azure_storage)
    assert await azure_storage.blobs.properties("blobs", PATH) is None


async def test_a_deletion_makes_no_container(azure_storage: Storage) -> None:
    await azure_storage.blobs.delete_blob("nothing", PATH)
    assert not await azure_storage.blobs.set_headers("nothing", PATH, content_type="a/b", content_encoding="")
    assert await azure_storage.blobs.list_paths("nothing", "") == []
