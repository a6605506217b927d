"""Scenarios that measure signing in (design 6)."""

from __future__ import annotations

from shared.auth.openid import SignIn
from shared.runtime import utc_now
from shared.store.counting import Operations
from shared.store.expiring import ExpiryStore
from tests.parts.unit.test_openid import NONCE, Issuer, token
from tests.promises.azurite.budgets import Bench, budget


def of_people(bench: Bench) -> SignIn:
    return Issuer().sign_in(first_exchange=ExpiryStore(bench.storage, utc_now).id_token, now=utc_now)


@budget("signIn", "signIn of a person")
async def sign_in(bench: Bench) -> Operations:
    people = of_people(bench)
    await people.identity(token(), NONCE)  # the table is there
    return await bench.measure(people.identity(token(jti="another"), NONCE))


@budget("signIn, repeated", "signIn of a person", "signIn … with the same token")
async def sign_in_again(bench: Bench) -> Operations:
    people, id_token = of_people(bench), token()
    await people.identity(id_token, NONCE)
    return await bench.measure(people.identity(id_token, NONCE))
