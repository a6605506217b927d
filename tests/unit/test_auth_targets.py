"""Which request targets a client may have signed (design 8)."""

from urllib.parse import quote, unquote

import pytest

from local.host.paths import decode_path, encode_path
from shared.auth import targets

ROUTE = "/api/queue/v1/task/<taskId>/artifacts/<name>"
NAME = "public/some file!(1).txt"
PARAMS = {"taskId": "AAAAAAAAQACAAAAAAAAAAA", "name": NAME}
PATH = "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/artifacts/"
PYTHON = f"{PATH}public%2Fsome%20file%21%281%29.txt"
JAVASCRIPT = f"{PATH}public%2Fsome%20file!(1).txt"
TYPED = f"{PATH}public/some%20file!(1).txt"
AZURE = f"https://internal.example{PATH}public/some%20file!(1).txt"
"""What the Functions host makes of all of these."""


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


@pytest.mark.parametrize("name", ["100%ab", "a%2Fb", "50%", "50% off", "%25", "a+b", "ä/ö"])
def test_a_percent_sign_in_an_argument_survives_the_host(name: str) -> None:
    raw = PATH + quote(name, safe="")
    shown = encode_path(decode_path(raw, slashes=True))
    assert targets.raw_target(f"https://internal.example{shown}", {"x-original-url": raw}) == raw


@pytest.mark.parametrize(
    "raw",
    [
        PYTHON + "x",
        PYTHON.replace("%2F", "%25252F"),
        PYTHON + "?a=1",
        "/api/queue/v1/ping",
        PYTHON.replace("/api/", "/api/./"),
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


def test_the_query_is_kept_as_it_is() -> None:
    found = targets.signed_targets(AZURE + "?b=2&a=%2f", {}, route=ROUTE, params=PARAMS)
    assert f"{PYTHON}?b=2&a=%2f" in found


def test_a_target_without_path() -> None:
    assert targets.target_of("https://tc.example.com") == "/"
    assert targets.target_of("https://tc.example.com?a=1") == "/?a=1"
    assert targets.target_of("https://tc.example.com//a/b?c#d") == "//a/b?c"
