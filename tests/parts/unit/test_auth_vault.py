"""Access tokens at rest."""

import base64

import pytest

from shared.base.vault import CannotOpen, Vault

OLD = base64.urlsafe_b64encode(b"o" * 32).decode()
NEW = base64.urlsafe_b64encode(b"n" * 32).decode()
TOKEN = "some-token-0123456789abcdef"


def test_what_is_sealed_opens_again() -> None:
    vault = Vault([NEW])
    sealed = vault.seal("some", TOKEN)
    assert vault.open("some", sealed) == TOKEN
    assert TOKEN.encode() not in sealed
    assert vault.seal("some", TOKEN) != sealed


def test_old_keys_open_and_the_first_one_seals() -> None:
    sealed = Vault([OLD]).seal("some", TOKEN)
    rotated = Vault([NEW, OLD])
    assert rotated.open("some", sealed) == TOKEN
    assert not rotated.is_current(sealed)
    resealed = rotated.seal("some", TOKEN)
    assert rotated.is_current(resealed)
    assert Vault([NEW]).open("some", resealed) == TOKEN
    with pytest.raises(CannotOpen):
        Vault([NEW]).open("some", sealed)


def test_a_token_is_bound_to_its_client() -> None:
    vault = Vault([NEW])
    with pytest.raises(CannotOpen):
        vault.open("other", vault.seal("some", TOKEN))


@pytest.mark.parametrize("keys", [[], [""], ["short"], [NEW, "x"], [NEW[:-4]], [NEW + "*"], ["ö" * 44]])
def test_keys_are_32_bytes(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="key"):
        Vault(keys)
