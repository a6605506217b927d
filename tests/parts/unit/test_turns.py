"""Concurrent callers share one reading."""

from __future__ import annotations

import asyncio

import pytest
from azure.core.credentials import AccessToken

from shared.base.errors import ServiceUnavailable
from shared.base.memo import Memo, Remembered
from shared.store.authorisation import Bearer
from shared.store.signing import DelegatedKey
from tests.parts.unit.test_signing import NOW
from tests.parts.unit.test_tokens_of_hot_requests import request_of

ASKED = Remembered("asked", 0)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Reading:
    """Counts how often it is read, and fails while it is told to."""

    def __init__(self) -> None:
        self.number = 0
        self.fails = False
        self.goes_on = asyncio.Event()

    async def __call__(self) -> int:
        self.number += 1
        number = self.number
        await self.goes_on.wait()
        if self.fails:
            raise ServiceUnavailable(f"reading {number}")
        return number


async def test_who_reads_and_goes_away_leaves_the_reading_to_the_next() -> None:
    memo: Memo[str, int] = Memo(ASKED)
    reading = Reading()
    first, second = (asyncio.create_task(memo.read_anew("key", reading)) for _ in range(2))
    await settled()
    first.cancel()
    reading.goes_on.set()
    assert await second == 2


class Silent:
    """An identity that gives no token, and a storage that gives no delegated key, which fail only after a long time."""

    def __init__(self) -> None:
        self.asked = 0
        self.goes_on = asyncio.Event()

    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        return AccessToken(await self.ask(), 0)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Silent:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def ask(self, *arguments: object) -> str:
        self.asked += 1
        await self.goes_on.wait()
        raise TimeoutError


@pytest.mark.parametrize("kind", ["token", "delegated key"])
async def test_what_nobody_gives_is_not_asked_for_by_one_call_after_the_other(kind: str) -> None:
    silent = Silent()
    bearer, key = Bearer(silent), DelegatedKey(silent.ask)

    async def call() -> None:
        if kind == "token":
            await bearer.authorise(request_of("https://account.example"))
        else:
            await key.current(NOW, NOW)

    calls = [asyncio.create_task(call()) for _ in range(20)]
    await settled()
    silent.goes_on.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, TimeoutError) for outcome in outcomes)
    assert silent.asked == 2
