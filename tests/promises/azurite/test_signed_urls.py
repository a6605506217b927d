"""Signed URLs against Azurite: what they allow, also where nothing has been made yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from yarl import URL

from shared.store.counting import counting
from shared.store.interface import Storage


@pytest.fixture
def now() -> datetime:
    """Returns the time when the test begins: others may have run for an hour since this module was imported."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def validity(now: datetime) -> dict[str, datetime]:
    """Returns start and expiry of a URL that is valid for half an hour."""
    return {"start": now - timedelta(minutes=15), "expiry": now + timedelta(minutes=30)}


async def test_a_write_url_creates_the_missing_container(azure_storage: Storage, validity: dict[str, datetime]) -> None:
    url = await azure_storage.access.write_blob("new-container", "a/path", **validity)
    async with aiohttp.ClientSession() as session:
        block = URL(f"{url}&comp=block&blockid=YQ%3D%3D", encoded=True)
        async with session.put(block, data=b"content") as answer:
            assert answer.status == 201
    assert await azure_storage.blobs.commit_blocks(
        "new-container", "a/path", ["a"], content_type="text/plain", content_encoding=""
    )
    assert await azure_storage.blobs.download("new-container", "a/path") == b"content"


async def test_a_container_is_looked_after_once(azure_storage: Storage, validity: dict[str, datetime]) -> None:
    for expected in (1, 0, 0):
        with counting() as operations:
            await azure_storage.access.write_blob("new-container", "a/path", **validity)
        assert operations.total == expected


@pytest.mark.parametrize("minutes", [-31, 20])
async def test_a_queue_is_open_for_the_time_that_was_said(azure_storage: Storage, minutes: int, now: datetime) -> None:
    await azure_storage.queues.put_message("a-queue", "text")
    start = now + timedelta(minutes=minutes)
    signed = await azure_storage.access.process_queue("a-queue", start=start, expiry=start + timedelta(minutes=30))
    url = URL(f"{signed.url}/messages?{signed.sas}", encoded=True)
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 403
