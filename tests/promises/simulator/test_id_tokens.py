"""An ID token of a person is good for one sign-in; its row goes when the token has ended (contract 11.8)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from shared.auth.openid import AGAIN_WITHIN, SignIn
from shared.base.errors import AuthenticationFailed
from shared.store import keys
from shared.store.expiring import ExpiryStore
from tests.parts.unit.test_openid import NONCE, Issuer, job_token, token, workloads
from tests.promises.simulator.expiring import HOUR, expire
from tests.promises.simulator.world import World

LIFE = timedelta(hours=3)


def of_process(world: World) -> SignIn:
    """Returns the sign-in of a process of its own."""
    store = ExpiryStore(world.memory.storage, world.clock.now)
    return Issuer().sign_in(first_exchange=store.id_token, now=world.clock.now)


def exchanged(world: World) -> int:
    return sum(row.key.startswith(keys.EXCHANGED) for row in world.rows(keys.EXPIRY))


async def is_refused(world: World, id_token: str) -> None:
    with pytest.raises(AuthenticationFailed, match="exchanged before"):
        await of_process(world).identity(id_token, NONCE)


def test_a_token_is_exchanged_again_for_a_minute_and_then_by_nobody() -> None:
    world, id_token = World(), token()

    async def story() -> None:
        identity = await of_process(world).identity(id_token, NONCE)
        await world.clock.sleep(AGAIN_WITHIN.total_seconds())
        assert await of_process(world).identity(id_token, NONCE) == identity, "as after a lost answer"
        await world.clock.sleep(1)
        for _ in range(2):
            await is_refused(world, id_token)
        assert await of_process(world).identity(token(jti="another"), NONCE) == identity

    world.run(story())


def test_what_is_refused_uses_no_token_up() -> None:
    world, id_token = World(), token()

    async def story() -> None:
        with pytest.raises(AuthenticationFailed, match="another sign-in"):
            await of_process(world).identity(id_token, "a nonce of another sign-in")
        assert not exchanged(world)
        await world.clock.sleep(120)
        await of_process(world).identity(id_token, NONCE)

    world.run(story())


def test_a_workload_may_use_its_token_until_that_ends() -> None:
    """A workload may use its token until that ends: platforms give it the same one again and again."""
    world, id_token = World(), job_token()

    async def story() -> None:
        sign_in = workloads(Issuer())
        for _ in range(3):
            await sign_in.identity(id_token)
            await world.clock.sleep(HOUR)
        assert not exchanged(world)

    world.run(story())


@pytest.mark.parametrize("later", [timedelta(0), timedelta(days=4_000_000)], ids=["soon", "never"])
def test_its_row_is_kept_until_the_token_has_ended(later: timedelta) -> None:
    ends = int(time.time() + (LIFE + later).total_seconds())
    world, id_token = World(), token(exp=ends)

    async def story() -> None:
        await of_process(world).identity(id_token, NONCE)
        await world.clock.sleep(
            (datetime.fromtimestamp(ends - later.total_seconds(), UTC) - world.clock.now()).total_seconds()
        )
        await expire(world, 1)
        assert exchanged(world) == 1
        await expire(world, 3)
        assert exchanged(world) == (1 if later else 0)

    world.run(story())
