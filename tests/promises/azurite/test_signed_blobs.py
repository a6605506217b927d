"""Signed URLs of blobs, as Azurite understands them, with the account's key; test_identity.py has delegated ones."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import requests

from shared.store.interface import Storage

TIMEOUT = 30
PATH = "task/0/digest"
CONTENT = b"content"
MINUTE = timedelta(minutes=1)
BLOCK = base64.b64encode(b"artifact").decode()


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


async def read_url(storage: Storage, path: str = PATH, life: timedelta = MINUTE) -> str:
    return await storage.access.read_blob(
        "blobs",
        path,
        start=now() - 15 * MINUTE,
        expiry=now() + life,
        content_type="text/html; charset=utf-8",
        content_disposition='inline; filename="a \\"b\\".html"',
    )


async def write_url(storage: Storage, path: str = PATH, life: timedelta = MINUTE) -> str:
    return await storage.access.write_blob("blobs", path, start=now() - 15 * MINUTE, expiry=now() + life)


async def send(method: str, url: str, **headers: str) -> requests.Response:
    """Sends a request with nothing but the URL to authorise it; a PUT brings the content."""
    return await asyncio.to_thread(
        requests.request,
        method,
        url,
        data=CONTENT if method == "PUT" else None,
        headers=headers,
        stream=True,
        timeout=TIMEOUT,
    )


async def test_write_url_only_writes_and_read_url_only_reads(azure_storage: Storage) -> None:
    """A URL for writing writes one blob, a URL for reading reads one, and neither does anything else."""
    storage = azure_storage
    write = await write_url(storage)
    put = await send("PUT", f"{write}&comp=block&blockid={BLOCK}", **{"Content-Type": "text/plain"})
    assert put.status_code == 201, put.text
    assert await storage.blobs.commit_blocks("blobs", PATH, ["artifact"], content_type="a/b", content_encoding="br")
    read = await read_url(storage)
    got = await send("GET", read)
    assert got.status_code == 200
    assert got.raw.read(decode_content=False) == CONTENT
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    assert got.headers["content-encoding"] == "br"
    assert got.headers["content-disposition"] == 'inline; filename="a \\"b\\".html"'
    container = read.split("?")[0].removesuffix(PATH)
    signature = urlsplit(read).query
    forbidden = [
        await send("GET", write),
        await send("PUT", read, **{"x-ms-blob-type": "BlockBlob"}),
        await send("DELETE", write),
        await send("GET", f"{container}another?{signature}"),
        await send("GET", f"{container}?restype=container&comp=list&{signature}"),
        await send("GET", await read_url(storage, life=-MINUTE)),
        await send("GET", storage.access.plain_url("blobs", PATH)),
    ]
    assert {answer.status_code for answer in forbidden} <= {403, 404}, [answer.status_code for answer in forbidden]
    assert await storage.blobs.download("blobs", PATH) == CONTENT
