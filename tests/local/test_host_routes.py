"""Route templates, their constraints, and which function a request goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.host.errors import HostError
from local.host.routes import Route, Router, Template, parse_route


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
        ("items/{name?}", "/items", {}),
        ("items/{name?}", "/items/", {}),
        ("items/{name?}", "/items/x", {"name": "x"}),
        ("{a}/{b?}", "/x", {"a": "x"}),
        ("{a}/{b?}", "/x/y/z", None),
        ("files/{*rest}", "/files", {}),
        ("files/{*rest}", "/files/", {}),
        ("files/{*rest}", "/files/a/b//c/", {"rest": "a/b//c/"}),
        ("files/{**rest}", "/files/a/b", {"rest": "a/b"}),
        ("{*rest}", "/", {}),
        ("{*rest}", "/a/b", {"rest": "a/b"}),
        ("{a}/{*rest}", "/x/y/z", {"a": "x", "rest": "y/z"}),
        ("{a}/{*rest}", "//y", None),
    ],
)
def test_a_template_matches_a_path(template: str, path: str, values: dict[str, str] | None) -> None:
    assert Template.parse(template).match(path) == values


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        ("int", ["0", "-7", "2147483647"], ["x", "1.5", "2147483648"]),
        ("long", ["2147483648"], ["9223372036854775808", "one"]),
        ("alpha", ["abcXYZ"], ["a1", "ä"]),
        ("bool", ["true", "FALSE"], ["yes", "1"]),
        ("decimal", ["1.5", "-.5", "7"], ["1,5", "x"]),
        ("double", ["1e3"], ["e3"]),
        ("guid", ["c9a646d3-9c61-4cb7-bfcd-ee2522c8f633", "C9A646D39C614CB7BFCDEE2522C8F633"], ["c9a646d3"]),
        ("length(3)", ["abc"], ["ab", "abcd"]),
        ("length(2,3)", ["ab", "abc"], ["a", "abcd"]),
        ("minlength(2)", ["ab"], ["a"]),
        ("maxlength(2)", ["ab"], ["abc"]),
        ("min(5)", ["5", "6"], ["4", "x"]),
        ("max(5)", ["5", "-1"], ["6"]),
        ("range(1,5)", ["1", "5"], ["0", "6"]),
        ("required", ["x"], []),
        ("regex(^[a-z]{{2}}/?:\\d$)", ["ab:1", "AB:1"], ["abc:1"]),
        ("alpha:minlength(2)", ["ab"], ["a", "a1"]),
    ],
)
def test_a_constraint_accepts_and_refuses(constraint: str, good: list[str], bad: list[str]) -> None:
    template = Template.parse(f"x/{{value:{constraint}}}")
    for value in good:
        assert template.match(f"/x/{value}") == {"value": value}, value
    for value in bad:
        assert template.match(f"/x/{value}") is None, value


def test_an_optional_parameter_is_constrained_only_when_it_is_there() -> None:
    template = Template.parse("x/{id:int?}")
    assert template.match("/x") == {}
    assert template.match("/x/1") == {"id": "1"}
    assert template.match("/x/y") is None


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("a/{*rest}/b", "last"),
        ("a/{b?}/c", "last"),
        ("a/{b", "braces"),
        ("a/b}", "braces"),
        ("a//b", "empty"),
        ("a/{b}.{c}", "mixes"),
        ("a/x{b}", "mixes"),
        ("a/{b=1}", "default"),
        ("a/{b}/{B}", "twice"),
        ("a/{}", "name"),
        ("a/{b:nope}", "nope"),
        ("a/{b:length(x)}", "length"),
        ("a/{b:length}", "length"),
        ("a/{b:regex([)}", "expression"),
        ("a/{*b?}", "optional"),
        ("a/b?", "literal"),
    ],
)
def test_a_template_that_is_not_served_is_refused_with_the_functions_name(template: str, why: str) -> None:
    with pytest.raises(HostError, match=rf"function f: .*{why}"):
        parse_route("f", "api", template, None)


@pytest.mark.parametrize("route", ["admin/x", "Runtime/{*rest}", "administration"])
def test_the_hosts_own_paths_are_refused(route: str) -> None:
    with pytest.raises(HostError, match="function f"):
        parse_route("f", "", route, None)


def routed(routes: list[Route], method: str, path: str) -> str | None:
    """The name of the function that gets the request."""
    match = Router(routes).match(method, path)
    return match[0].function if match else None


def test_the_more_specific_template_wins_whatever_the_order() -> None:
    templates = {
        "rest": "{*rest}",
        "item": "items/{name}",
        "number": "items/{id:int}",
        "recent": "items/recent",
        "tail": "items/{name}/{*rest}",
    }
    routes = [parse_route(name, "", template, None) for name, template in templates.items()]
    for order in (routes, routes[::-1]):
        assert routed(order, "GET", "/items/recent") == "recent"
        assert routed(order, "GET", "/items/7") == "number"
        assert routed(order, "GET", "/items/x") == "item"
        assert routed(order, "GET", "/items/x/y") == "tail"
        assert routed(order, "GET", "/other") == "rest"


def test_a_method_that_a_route_does_not_take_goes_to_a_less_specific_one() -> None:
    routes = [
        parse_route("put", "", "items/{name}", frozenset({"PUT"})),
        parse_route("get", "", "items/{other}", frozenset({"GET", "HEAD"})),
        parse_route("rest", "", "items/{*rest}", frozenset({"POST"})),
    ]
    assert routed(routes, "PUT", "/items/x") == "put"
    assert routed(routes, "HEAD", "/items/x") == "get"
    assert routed(routes, "POST", "/items/x") == "rest"
    assert routed(routes, "DELETE", "/items/x") is None


@pytest.mark.parametrize("methods", [None, frozenset({"GET", "PUT"})])
def test_the_same_route_and_method_twice_is_an_error_naming_both(methods: frozenset[str] | None) -> None:
    one = parse_route("one", "api", "Items/{name}", methods)
    other = parse_route("other", "api", "items/{id}", frozenset({"GET"}))
    with pytest.raises(HostError, match="functions one and other"):
        Router([one, other])


def test_routes_that_the_platform_may_choose_otherwise_are_named() -> None:
    router = Router(
        [
            parse_route("details", "", "products/{id}", None),
            parse_route("list", "", "products/list", None),
            parse_route("zebra", "", "{*rest}", None),
        ]
    )
    assert router.ambiguous() == [("list", "details")]


segments = st.lists(st.text("ab%{}?*:()=1", min_size=1, max_size=8), min_size=1, max_size=3)


@given(template=segments.map("/".join), path=segments.map(lambda parts: "/" + "/".join(parts)))
def test_any_template_is_either_refused_or_matches_without_failing(template: str, path: str) -> None:
    try:
        parsed = Template.parse(template)
    except ValueError:
        return
    values = parsed.match(path)
    assert values is None or set(values) <= {segment.name for segment in parsed.segments}


names = st.text("abcXYZ019._-~ %ä", min_size=1, max_size=10)


@given(values=st.lists(names, min_size=1, max_size=4))
def test_what_is_put_into_a_template_is_what_it_gives_back(values: list[str]) -> None:
    template = Template.parse("/".join(f"s{position}/{{p{position}}}" for position in range(len(values))))
    path = "".join(f"/s{position}/{value}" for position, value in enumerate(values))
    assert template.match(path) == {f"p{position}": value for position, value in enumerate(values)}
