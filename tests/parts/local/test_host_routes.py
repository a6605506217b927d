"""Routes, and which function a request goes to."""

import pytest

from tools.local.host.errors import HostError
from tools.local.host.routes import Route, Router, parse_route


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("api/items", "/api/items", {}),
        ("api/items", "/API/Items/", {}),
        ("api/items", "/api/items/x", None),
        ("api/items", "/api", None),
        ("items/{name}", "/items/a%2Fb", {"name": "a%2Fb"}),
        ("items/{name}", "/items/A b", {"name": "A b"}),
        ("items/{name}", "/items/", None),
        ("items/{name}", "/items//x", None),
        ("items/{name}", "/items/x/y", None),
        ("files/{*rest}", "/files", {}),
        ("files/{*rest}", "/files/", {}),
        ("files/{*rest}", "/files/a/b//c/", {"rest": "a/b//c/"}),
        ("{*rest}", "/", {}),
        ("{*rest}", "//a/b", {"rest": "/a/b"}),
    ],
)
def test_a_route_matches_a_path(template: str, path: str, values: dict[str, str] | None) -> None:
    assert parse_route("f", "", template, None).match(path) == values


@pytest.mark.parametrize(
    "template", ["a/{*rest}/b", "a/{b?}", "a/{b:int}", "a/{b=1}", "a/{b", "a//b", "a/x{b}", "{a}/{b}", "a/{}", "a/b?"]
)
def test_what_the_app_does_not_use_is_refused_with_the_functions_name(template: str) -> None:
    with pytest.raises(HostError, match=r"function f: .*local host"):
        parse_route("f", "api", template, None)


@pytest.mark.parametrize("route", ["admin/x", "Runtime/{*rest}", "administration"])
def test_the_hosts_own_paths_are_refused(route: str) -> None:
    with pytest.raises(HostError, match="function f"):
        parse_route("f", "", route, None)


def routed(routes: list[Route], method: str, path: str) -> str | None:
    """Returns the name of the function that gets the request."""
    match = Router(routes).match(method, path)
    return match[0].function if match else None


def test_the_more_specific_route_that_takes_the_method_wins_whatever_the_order() -> None:
    routes = [
        parse_route("rest", "", "{*rest}", None),
        parse_route("tail", "", "items/{*rest}", frozenset({"POST", "GET"})),
        parse_route("item", "", "items/{name}", frozenset({"GET", "HEAD"})),
        parse_route("recent", "", "items/recent", frozenset({"GET"})),
    ]
    for order in (routes, routes[::-1]):
        assert routed(order, "GET", "/items/recent") == "recent"
        assert routed(order, "HEAD", "/items/recent") == "item"
        assert routed(order, "GET", "/items/x") == "item"
        assert routed(order, "POST", "/items/x") == "tail"
        assert routed(order, "GET", "/items/x/y") == "tail"
        assert routed(order, "DELETE", "/items/x") == "rest"
    assert routed(routes[1:], "DELETE", "/items/x") is None


@pytest.mark.parametrize("methods", [None, frozenset({"GET", "PUT"})])
def test_the_same_route_and_method_twice_is_an_error_naming_both(methods: frozenset[str] | None) -> None:
    one = parse_route("one", "api", "Items/{name}", methods)
    other = parse_route("other", "api", "items/{id}", frozenset({"GET"}))
    with pytest.raises(HostError, match="functions one and other"):
        Router([one, other])
