"""The keys that a provider publishes: when they are read, and what holds while it is silent or strangers ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from jwt import PyJWK

from shared.auth.openid import KEYS_LAST, KEYS_REST, PublishedKeys, fetch
from shared.base.bounds import SIGN_INS_WAITING
from shared.base.errors import AuthenticationFailed, ServiceUnavailable
from tests.parts.unit.test_openid import ISSUER, NONCE, OTHER_RSA, Issuer, published, token


class SlowIssuer(Issuer):
    """A provider that answers, or fails, only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0
        self.goes_on = asyncio.Event()

    async def fetch(self, url: str) -> bytes:
        self.tries += 1
        await self.goes_on.wait()
        return await super().fetch(url)

    def published_keys(self) -> PublishedKeys:
        return PublishedKeys(ISSUER, self.fetch, lambda: self.clock)


async def found(keys: PublishedKeys, key_id: str) -> str:
    """Returns how a search for a key ends."""
    try:
        key: PyJWK = await keys.find(key_id, "RS256")
    except (AuthenticationFailed, ServiceUnavailable) as error:
        return str(error)
    return str(key.key_id)


async def turns_of_the_loop(number: int = 10) -> None:
    """Lets everything that can go on do so."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_keys_are_read_once_in_a_while_and_when_they_rotate() -> None:
    issuer = Issuer()
    sign_in = issuer.sign_in()
    for _ in range(3):
        await sign_in.identity(token(), NONCE)
    assert issuer.reads == 1
    issuer.keys = [published("new", OTHER_RSA)]
    rotated = token(OTHER_RSA, headers={"kid": "new"})
    issuer.clock += KEYS_REST.total_seconds() + 1
    await sign_in.identity(rotated, NONCE)
    assert issuer.reads == 2
    for number in range(5):
        with pytest.raises(AuthenticationFailed):
            await sign_in.identity(token(headers={"kid": f"made up {number}"}), NONCE)
    assert issuer.reads == 2, "made-up key ids make nobody read the keys"
    issuer.keys = []
    issuer.clock += KEYS_LAST.total_seconds() + 1
    with pytest.raises(AuthenticationFailed):
        await sign_in.identity(rotated, NONCE)


async def test_a_known_key_is_found_while_made_up_ones_wait_for_a_silent_provider() -> None:
    issuer = SlowIssuer()
    issuer.goes_on.set()
    keys = issuer.published_keys()
    assert await found(keys, "rsa") == "rsa"
    issuer.goes_on.clear()
    issuer.clock += KEYS_REST.total_seconds() + 1
    strangers = [asyncio.create_task(found(keys, f"made up {number}")) for number in range(100)]
    await turns_of_the_loop()
    waiting = [each for each in strangers if not each.done()]
    assert len(waiting) == SIGN_INS_WAITING, "the others have their answer at once"
    assert await asyncio.wait_for(found(keys, "rsa"), 10) == "rsa"
    issuer.is_away = True
    issuer.goes_on.set()
    answers = await asyncio.gather(*strangers)
    assert sum("cannot be read" in answer for answer in answers) == SIGN_INS_WAITING
    assert sum("too many" in answer for answer in answers) == 100 - SIGN_INS_WAITING


async def test_keys_are_not_used_for_longer_than_they_last_while_the_provider_is_away() -> None:
    issuer = Issuer()
    keys = PublishedKeys(ISSUER, issuer.fetch, lambda: issuer.clock)
    assert await found(keys, "rsa") == "rsa"
    issuer.is_away = True
    issuer.clock += KEYS_LAST.total_seconds()
    assert await found(keys, "rsa") == "rsa"
    issuer.clock += 1
    assert "cannot be read" in await found(keys, "rsa")


@asynccontextmanager
async def answering(*pieces: bytes, length: int | None = None) -> AsyncIterator[tuple[str, asyncio.Semaphore]]:
    """Serves an answer in pieces, each after the semaphore is released once more."""
    goes_on = asyncio.Semaphore(0)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        stated = sum(map(len, pieces)) if length is None else length
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {stated}\r\n\r\n".encode())
        for piece in pieces:
            async with asyncio.timeout(60):
                await goes_on.acquire()
            writer.write(piece)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}/", goes_on


@pytest.mark.parametrize(("content", "length"), [(b"x" * 1024 * 1024 + b"x", None), (b"half", 8)], ids=["large", "cut"])
async def test_what_is_too_large_or_breaks_off_is_not_read(content: bytes, length: int | None) -> None:
    async with answering(content, length=length) as (url, goes_on):
        goes_on.release()
        with pytest.raises((ValueError, ConnectionError)):
            await fetch(url)
