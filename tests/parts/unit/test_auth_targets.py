"""Which request targets a client may have signed (design 8)."""

from collections.abc import Callable
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.auth import authenticate as targets
from tools.local.host.paths import decode_path, encode_path

ROUTE = "/api/queue/v1/task/<taskId>/artifacts/<name>"
NAME = "public/some file!(1).txt"
PARAMS = {"taskId": "AAAAAAAAQACAAAAAAAAAAA", "name": NAME}
PATH = "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/artifacts/"
PYTHON = f"{PATH}public%2Fsome%20file%21%281%29.txt"
JAVASCRIPT = f"{PATH}public%2Fsome%20file!(1).txt"
TYPED = f"{PATH}public/some%20file!(1).txt"
AZURE = f"https://internal.example{PATH}public/some%20file!(1).txt"
"""The URL that the Functions host makes of each of these targets."""


GO = {
    "public/a@2x (1).png": "public%2Fa@2x%20%281%29.png",
    "public/mochitest (chunk=3).log": "public%2Fmochitest%20%28chunk=3%29.log",
    "public/a+b, c;d.txt": "public%2Fa+b%2C%20c%3Bd.txt",
    "public/$&+=:@ !'()*,;~.x": "public%2F$&+=:@%20%21%27%28%29%2A%2C%3B~.x",
    "public/logs/live:1 [x].log": "public%2Flogs%2Flive:1%20%5Bx%5D.log",
}
"""The results of url.PathEscape for some names, as Go 1.22 printed them."""
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
GO_PRINTABLE = (
    "%20%21%22%23$%25&%27%28%29%2A+%2C-.%2F0123456789:%3B%3C=%3E%3F@ABCDEFGHIJKLMNOPQRSTUVWXYZ%5B%5C%5D%5E_%60"
    "abcdefghijklmnopqrstuvwxyz%7B%7C%7D~"
)


def by_go(name: str) -> str:
    """Escapes a name as Go's url.PathEscape does."""
    return quote(name, safe="$&+=:@~")


def by_javascript(name: str) -> str:
    """Escapes a name as JavaScript's encodeURIComponent does."""
    return quote(name, safe="!*'()~")


def by_node(name: str) -> str:
    """Escapes a name as the npm client does: as encodeURIComponent, and the apostrophe as well."""
    return quote(name, safe="!*()~")


def test_rules_of_go_are_those_of_go() -> None:
    assert by_go(PRINTABLE) == GO_PRINTABLE
    assert {name: by_go(name) for name in GO} == GO


NAMES = st.text(alphabet=PRINTABLE, min_size=1).filter(lambda name: targets._ENCODED.search(name) is None)


@given(NAMES, st.sampled_from([by_go, by_javascript, by_node, lambda name: quote(name, safe="")]), st.booleans())
def test_target_of_every_client_is_found_whatever_the_platform_decodes(
    name: str, encode: Callable[[str], str], slashes: bool
) -> None:
    raw = PATH + encode(name)
    shown = encode_path(decode_path(raw, slashes=slashes))
    params = {**PARAMS, "name": name}
    if unquote(shown) == PATH + name:  # the host resolves dot segments
        assert raw in targets.signed_targets(f"https://internal.example{shown}", {}, route=ROUTE, params=params)


@pytest.mark.parametrize(
    ("name", "ambiguous"),
    [
        ("public/a (1).png", True),
        ("a@2x.png", False),
        ("a,b;c", True),
        ("a b.txt", False),
        ("50%ab", True),
        ("50%", False),
    ],
)
def test_target_is_ambiguous_where_characters_mix_that_clients_treat_differently(name: str, ambiguous: bool) -> None:
    params = {**PARAMS, "name": name}
    raw = PATH + quote(name, safe="")
    assert targets.is_ambiguous(f"https://h{PATH}{quote(name)}", {}, params) is ambiguous
    assert not targets.is_ambiguous(f"https://h{PATH}{quote(name)}", {"x-original-url": raw}, params)


@pytest.mark.parametrize("signed", [PYTHON, JAVASCRIPT, TYPED])
def test_every_client_is_found_without_the_raw_target(signed: str) -> None:
    found = targets.signed_targets(AZURE, {}, route=ROUTE, params=PARAMS)
    assert signed in found
    assert all(unquote(target) == unquote(PATH + NAME) for target in found)


@pytest.mark.parametrize("header", ["x-waws-unencoded-url", "x-original-url"])
@pytest.mark.parametrize("prefix", ["", "https://tc.example.com"])
def test_the_raw_target_is_the_only_one(header: str, prefix: str) -> None:
    odd = PYTHON.replace("%2F", "%2f")
    headers = {header: prefix + odd}
    assert targets.raw_target(AZURE, headers) == odd
    assert targets.signed_targets(AZURE, headers, route=ROUTE, params=PARAMS) == [odd]


@pytest.mark.parametrize(
    "raw",
    [
        PYTHON + "x",
        PYTHON.replace("%2F", "%25252F"),
        PYTHON + "?a=1",
        "/api/queue/v1/ping",
        PYTHON.replace("/api/", "/api/x/../"),
        "http://[broken",
    ],
)
def test_a_raw_target_that_means_something_else_is_ignored(raw: str) -> None:
    assert targets.raw_target(AZURE, {"x-original-url": raw}) is None
    assert targets.signed_targets(AZURE, {"x-original-url": raw}, route=ROUTE, params=PARAMS)[0] == TYPED


@pytest.mark.parametrize(
    ("query", "other", "same"),
    [
        ("a=1&b=2", "a=1&b=2", True),
        ("a=%7E", "a=~", True),
        ("a=1%26b=2", "a=1&b=2", False),
        ("a=1&b=2", "b=2&a=1", False),
        ("a=", "", False),
        ("a=%ff", "a=%fe", False),
        ("a=b+c", "a=b%20c", True),
    ],
)
def test_queries_mean_the_same_when_their_parameters_do(query: str, other: str, same: bool) -> None:
    assert targets.same_meaning(f"/a?{query}", f"/a?{other}") is same
