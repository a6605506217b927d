"""Signed URLs of blobs, as Azurite understands them: with the account's key, and with a delegated one."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from azure.core.credentials import AccessToken, AccessTokenInfo
from azure.core.credentials_async import AsyncTokenCredential
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.store.connection import AzureStorage, Endpoints
from shared.store.interface import Storage
from tests.promises.azurite.identity import trusting
from tools.local.azurite import ACCOUNT
from tools.local.child import Child

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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a certificate of 127.0.0.1, signed by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - MINUTE)
        .not_valid_after(now() + 60 * MINUTE)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.fixture(scope="module")
def secure_endpoint(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the endpoint for blobs of an Azurite that speaks https and takes tokens."""
    folder = tmp_path_factory.mktemp("azurite")
    script = Path(__file__).parents[3] / "tools" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    options = ["--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    secure = ["--oauth", "basic", "--cert", str(certificate), "--key", str(certificate)]
    child = Child.start("azurite", ["node", str(script), *options, *secure], log=folder / "log", cwd=folder)
    try:
        ready = child.wait_for(r"listens on https://127\.0\.0\.1:(\d+)", 60)
        yield f"https://127.0.0.1:{ready[1]}/{ACCOUNT}"
    finally:
        child.stop(grace=5)


class Identity(AsyncTokenCredential):
    """A managed identity, whose tokens Azurite reads and does not verify."""

    def _token(self) -> str:
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
            "iat": int(time.time()) - 60,
            "nbf": int(time.time()) - 60,
            "exp": int(time.time()) + 3600,
            "oid": "23657296-5cd5-45b0-a809-d972a7f4dfe1",
            "tid": "dd0d0df1-06c3-436c-8034-4b9a153097ce",
        }
        return jwt.encode(claims, "not verified by the emulator, but some key", algorithm="HS256")

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return AccessToken(self._token(), int(time.time()) + 3600)

    async def get_token_info(self, *scopes: str, options: Any = None) -> AccessTokenInfo:
        return AccessTokenInfo(self._token(), int(time.time()) + 3600)

    async def close(self) -> None:
        """Closes nothing."""

    async def __aexit__(self, *error: object) -> None:
        """Closes nothing."""


@pytest.fixture
async def delegated(secure_endpoint: str, certificate: Path) -> AsyncIterator[AzureStorage]:
    """An account of which only an identity is known."""
    endpoints = Endpoints(table=secure_endpoint, queue=secure_endpoint, blob=secure_endpoint)
    async with AzureStorage(endpoints, Identity(), **trusting(certificate)) as account:
        yield account


async def test_with_a_delegated_key(delegated: AzureStorage) -> None:
    """The key that the service delegates signs what the REST reference says. Azurite does not know the fields that the
    SDK's version adds to such signatures, so it cannot be asked."""
    url = await read_url(delegated.storage)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    start, end = (datetime.fromisoformat(query[name]) for name in ("skt", "ske"))
    key: Any = await delegated._delegated_blob_key(start, end)
    words = [
        *("r", query["st"], query["se"], f"/blob/{ACCOUNT}/blobs/{PATH}"),
        *(query["skoid"], query["sktid"], query["skt"], query["ske"], "b", query["skv"]),
        *("", "", ""),  # authorised user, unauthorised user, correlation id
        *("", ""),  # delegated tenant and user
        *("", "https", query["sv"], "b", "", ""),  # address, protocol, version, a blob, no snapshot, no scope
        *("", ""),  # headers and parameters that the request must have
        *("", 'inline; filename="a \\"b\\".html"', "", "", "text/html; charset=utf-8"),
    ]
    signature = hmac.digest(base64.b64decode(str(key.value)), "\n".join(words).encode(), "sha256")
    assert query["sig"] == base64.b64encode(signature).decode()
    assert query["spr"] == "https"
