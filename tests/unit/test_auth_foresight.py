"""Callers that no body could help are refused before the body is read; no others are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.endpoint import Endpoint
from shared.api.scopes import ScopeSet, certainly_missing, holds, params_of, render, satisfies
from shared.app.apis import AUTH, OBJECT, QUEUE

ALL = (*QUEUE.endpoints, *AUTH.endpoints, *OBJECT.endpoints)
BY_BODY = [endpoint for endpoint in ALL if endpoint.scopes is not None and not endpoint.authorised_by_url]
WORDS = st.sampled_from(["a", "b", "", "a/b", "queue:", "<x>"])
LISTS = frozenset({"scopes", "scopesAdded", "routes", "priorities", "taskIds", "taskQueueIds", "properties", "names"})


def values(endpoint: Endpoint, data: st.DataObject) -> dict[str, Any]:
    assert endpoint.scopes is not None
    found: dict[str, Any] = {}
    for name in sorted(params_of(endpoint.scopes) | set(endpoint.params)):
        kind: st.SearchStrategy[Any] = WORDS
        if name in LISTS:
            kind = st.lists(WORDS, max_size=2)
        elif name == "isLowest":
            kind = st.booleans()
        found[name] = data.draw(kind)
    return found


def scopes_near(expression: Any, data: st.DataObject) -> list[str]:
    """Some of the scopes that the expression names, whole or as a beginning with a star."""
    named = [expression] if isinstance(expression, str) else []
    if not named:
        for part in next(iter(expression.values())):
            named += scopes_near(part, data)
        return named
    cut = data.draw(st.sampled_from(["whole", "star", "none"]))
    if cut == "star":
        return [named[0][: data.draw(st.integers(0, len(named[0])))] + "*"]
    return named if cut == "whole" else []


@given(st.sampled_from(BY_BODY), st.data())
def test_refused_ahead_is_refused_whatever_the_body_says(endpoint: Endpoint, data: st.DataObject) -> None:
    params = values(endpoint, data)
    assert endpoint.scopes is not None
    expression = render(endpoint.scopes, params)
    held = ScopeSet([] if expression is None else scopes_near(expression, data))
    known = {name: params[name] for name in endpoint.params}
    is_allowed = expression is None or satisfies(held, expression)
    assert holds(held, endpoint.scopes, params) == is_allowed
    if is_allowed:
        assert certainly_missing(held, endpoint.scopes, known) is None


@pytest.mark.parametrize("endpoint", BY_BODY, ids=lambda endpoint: endpoint.name)
def test_refusal_ahead_is_not_satisfied_by_the_same_scopes(endpoint: Endpoint) -> None:
    assert endpoint.scopes is not None
    known = dict.fromkeys(endpoint.params, "x")
    lacking = certainly_missing(ScopeSet(["unrelated:scope"]), endpoint.scopes, known)
    only_loops = isinstance(endpoint.scopes, dict) and all(
        "for" in part for part in endpoint.scopes.get("AllOf", ["x"])
    )
    assert (lacking is None) == only_loops
    if lacking is not None:
        assert not satisfies(["unrelated:scope"], lacking)
        assert satisfies(["*"], lacking)


@given(st.lists(st.text(alphabet="ab*", max_size=4), max_size=5), st.text(alphabet="ab", max_size=3))
def test_beginning_is_held_if_some_scope_that_begins_so_is(scopes: list[str], text: str) -> None:
    held = ScopeSet(scopes)
    candidates = {text, *(scope.removesuffix("*") + end for scope in scopes for end in ("", "a"))}
    some = any(candidate.startswith(text) and candidate in held for candidate in candidates)
    assert held.has_beginning(text) == (some or text in held)
