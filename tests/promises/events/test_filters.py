"""Patterns as Service Bus rules select what topic exchanges select."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.queue.events.rendering import render_group
from shared.queue.events.rules import Exchange
from tests.promises.events.builders import GROUP_ID, TASK_ID, Life, group_event
from tests.promises.events.sql import evaluating
from tests.promises.events.topic_patterns import selects
from tests.selection import examples
from tools.listen.filters import MAX_SQL, CorrelationRule, PatternError, Rule, SqlRule, TrueRule, rules_for

Chosen = Callable[[tuple[Rule, ...], dict[str, str]], bool]
"""Whether a subscription with these rules gets a message with these properties."""


@pytest.fixture(scope="module")
def chosen() -> Iterator[Chosen]:
    with evaluating() as evaluate:

        def by_one(rule: Rule, properties: dict[str, str]) -> bool:
            if isinstance(rule, CorrelationRule):
                return all(properties.get(name) == value for name, value in rule.properties.items())
            return isinstance(rule, TrueRule) or evaluate(rule.expression, **properties) is True

        yield lambda rules, properties: any(by_one(rule, properties) for rule in rules)


def properties_of(routes: list[str], **definition: str) -> dict[str, str]:
    (message,) = Life.begin(routes=routes, **definition).schedule()
    return dict(message.properties)


# A small alphabet, so that random keys and patterns meet; with the signs that LIKE and our encoding care about.
route_words = st.text("ab%_|~'\\01", max_size=3)
routes = st.lists(route_words, min_size=1, max_size=5).map(".".join).filter(bool)
key_words = st.sampled_from(["primary", "route", TASK_ID, "0", "_", "prov", "pool", "sched", GROUP_ID, "a", "b"])
tokens = st.sampled_from(["*", "#"]) | route_words | key_words
patterns = st.lists(tokens, min_size=1, max_size=8).map(".".join).filter(bool)
route_patterns = st.lists(st.sampled_from(["*", "#"]) | route_words, min_size=1, max_size=6).map(
    lambda words: ".".join(["route", *words])
)
primary_patterns = st.lists(st.sampled_from(["*", "#", "*"]) | key_words, min_size=1, max_size=10).map(
    lambda words: ".".join(["primary", *words])
)


@settings(max_examples=examples(400))
@given(pattern=patterns | route_patterns | primary_patterns, task_routes=st.lists(routes, max_size=4, unique=True))
def test_rules_select_what_the_reference_selects(chosen: Chosen, pattern: str, task_routes: list[str]) -> None:
    properties = properties_of(task_routes)
    try:
        rules = rules_for(Exchange.TASK_PENDING, pattern)
    except PatternError as error:
        # "No message matches" is a claim about this one, too; the other reasons are about what SQL can say.
        assert "no message" not in str(error) or not selects(pattern, properties, task_routes)
        return
    assert chosen(rules, properties) == selects(pattern, properties, task_routes)
    assert all(len(rule.expression) <= MAX_SQL for rule in rules if isinstance(rule, SqlRule))


@given(words=st.lists(route_words, min_size=1, max_size=4), data=st.data())
def test_patterns_made_from_a_route_match_it(chosen: Chosen, words: list[str], data: st.DataObject) -> None:
    """Patterns made from a route match it as topic exchanges do: random ones seldom match, while these nearly always
    do, and their neighbours nearly do."""
    route = ".".join(words) or "x"
    pattern = [word if data.draw(st.booleans()) else "*" for word in route.split(".")]
    neighbour = data.draw(routes)
    for task_routes in ([route], [neighbour], [neighbour, route]):
        properties = properties_of(list(dict.fromkeys(task_routes)))
        rules = rules_for(Exchange.TASK_PENDING, ".".join(["route", *pattern]))
        assert chosen(rules, properties) == selects(".".join(["route", *pattern]), properties, task_routes)


@settings(max_examples=examples(50))
@given(words=st.lists(st.sampled_from(["*", "#", "sched", GROUP_ID, "_", "primary", "x"]), min_size=1, max_size=6))
def test_group_messages(chosen: Chosen, words: list[str]) -> None:
    pattern = ".".join(words)
    message = render_group(group_event(Exchange.TASK_GROUP_RESOLVED))
    try:
        rules = rules_for(Exchange.TASK_GROUP_RESOLVED, pattern)
    except PatternError:
        assert not selects(pattern, message.properties, [])
    else:
        assert chosen(rules, dict(message.properties)) == selects(pattern, message.properties, [])


@pytest.mark.parametrize(
    ("pattern", "properties"),
    [
        ("primary.*.*.*.*.my-provisioner.my-worker.#", {"provisionerId": "my-provisioner", "workerType": "my-worker"}),
        (f"primary.{TASK_ID}.#", {"taskId": TASK_ID}),
        (f"primary.*.*.*.*.*.*.*.{GROUP_ID}._", {"taskGroupId": GROUP_ID}),
        (f"primary.#.{GROUP_ID}.*", {"taskGroupId": GROUP_ID}),
        ("primary.*.*.group.worker.#", {"workerGroup": "group", "workerId": "worker"}),
    ],
)
def test_whole_words_become_a_correlation_filter(pattern: str, properties: dict[str, str]) -> None:
    assert rules_for(Exchange.TASK_PENDING, pattern) == (CorrelationRule(properties),)


def test_a_route_or_the_beginning_of_one_takes_a_single_condition() -> None:
    assert rules_for(Exchange.TASK_PENDING, "route.notify.by-email") == (
        SqlRule("routes LIKE '%|.notify.by-email.|%'"),
    )
    assert rules_for(Exchange.TASK_PENDING, "route.index.project.#") == (SqlRule("routes LIKE '%|.index.project.%'"),)
    assert rules_for(Exchange.TASK_PENDING, "route.#") == (SqlRule("EXISTS(routes)"),)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "1 to 255 characters"),
        ("route." + "x" * 250, "1 to 255 characters"),
        ("route.a\x00b", "control characters"),
        ("route.\ud800", "control characters"),
        ("primary.a.b", "no message"),
        ("primary.two words.#", "no message"),
        ("secondary.#", "no message"),
        ("route", "no message"),
        ("route.#.a.*", "behind a #"),
        (r"route.\^!$@&;_.*", "no escape character"),
    ],
)
def test_what_cannot_be_expressed_is_said_clearly(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        rules_for(Exchange.TASK_PENDING, pattern)


@pytest.mark.parametrize("pattern", ["route.*." + "%" * 247, "route.*" + ".%" * 124, "route.*" + ".'" * 124])
def test_the_longest_patterns_keep_to_the_limits(pattern: str) -> None:
    rules = rules_for(Exchange.TASK_PENDING, pattern)
    assert all(len(rule.expression) <= MAX_SQL for rule in rules if isinstance(rule, SqlRule))
    assert len(rules) <= 64


def test_a_pattern_that_takes_too_many_rules_is_refused() -> None:
    with pytest.raises(PatternError, match="would take 128 rules"):
        rules_for(Exchange.TASK_PENDING, "#.route" + ".%" * 110 + ".*.#")
