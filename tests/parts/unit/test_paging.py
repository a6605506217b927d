"""Query options of endpoints that answer pages (contract 13)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.validation import limit_of, start_of, token_of
from shared.base.bounds import PAGE
from shared.base.errors import InputError


@pytest.mark.parametrize(
    ("limit", "entries"), [("0", 0), ("000", 0), ("1", 1), ("0007", 7), ("1000", 1000), ("1001", PAGE), ("9" * 9, PAGE)]
)
def test_limits_are_capped_silently(limit: str, entries: int) -> None:
    assert limit_of({"limit": limit}) == entries


def test_a_limit_of_very_many_digits() -> None:
    assert limit_of({"limit": "9" * 100_000}) == PAGE
    assert limit_of({"limit": "0" * 100_000}) == 0


def test_without_options() -> None:
    assert limit_of({}) == PAGE
    assert start_of({}) == ""


@given(st.text(alphabet=[chr(code) for code in range(0x20, 0x7F)], min_size=1, max_size=513))
def test_a_token_leads_back_to_its_key_and_needs_no_escape(key: str) -> None:
    token = token_of(key)
    assert token.replace("-", "").replace("_", "").isalnum()
    assert start_of({"continuationToken": token}) == key


@given(st.text())
def test_any_other_token_is_refused_or_a_key(token: str) -> None:
    with contextlib.suppress(InputError):
        assert start_of({"continuationToken": token}).isprintable()


@pytest.mark.parametrize("token", ["!", "a", "_w", "AA", "ä", "a b", token_of("x" * 514)])
def test_malformed_tokens_are_refused(token: str) -> None:
    with pytest.raises(InputError):
        start_of({"continuationToken": token})
