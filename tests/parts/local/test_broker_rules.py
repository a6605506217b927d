"""Rules of the local Service Bus: SQL and correlation filters, through real messages and by property."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.local.broker_support import client, new_topic, send
from tests.promises.events.sql import Evaluator, evaluating
from tools.local.service_bus import ControlError, ServiceBus

USER: dict[str, Any] = {
    "routingKey": "primary.t1.0.g.w",
    "Count": 5,
    "ratio": 2.5,
    "flag": True,
    "percent": "100%",
    "quote": "it's",
    "empty": "",
    "two words": "x",
    "under_score": "a_b",
}
SYSTEM = {"message_id": "m-1", "subject": "task-pending", "correlation_id": "c", "to": "t", "reply_to": "r"}

SELECTED = [
    "1=1",
    "count = 5",
    "COUNT = 5.0 AND user.count=5",
    "count <> 4 AND count != 4",
    "count < 6 AND count <= 5 AND count > 4 AND count >= 5",
    "count > -1 AND count > +1",
    "ratio = 2.5 AND ratio = 25e-1 AND ratio > 2",
    "routingKey = 'primary.t1.0.g.w'",
    "routingKey LIKE 'primary.%.0.g._'",
    "routingKey like '%'",
    "routingKey LIKE '%t1%w'",
    "routingKey NOT LIKE '%x%'",
    "percent LIKE '100!%' ESCAPE '!'",
    r"percent LIKE '100\%' ESCAPE '\'",
    "under_score LIKE 'a!_b' ESCAPE '!'",
    "empty LIKE '' AND empty = ''",
    "quote = 'it''s'",
    "[two words] = 'x' AND \"two words\" = 'x'",
    "flag = TRUE AND flag <> false",
    "count IN (1, 5) AND count NOT IN (1, 2)",
    "routingKey IN ('a', 'primary.t1.0.g.w')",
    "missing IS NULL AND NOT missing IS NOT NULL",
    "count IS NOT NULL",
    "EXISTS(count) AND NOT EXISTS(missing) AND EXISTS(user.Flag) AND EXISTS(sys.Label)",
    "sys.Label = 'task-pending' AND sys.MessageId = 'm-1'",
    "sys.CorrelationId = 'c' AND sys.To = 't' AND sys.ReplyTo LIKE '_'",
    "sys.sessionid IS NULL AND sys.ContentType IS NULL",
    "missing = 1 OR count = 5",
    "NOT (missing = 1 AND count = 4)",
    "count = 4 OR count = 5 AND flag = TRUE",
    "NOT count = 4 AND (count = 1 OR (count = 5))",
    "'x' = [two words] AND 5 = count",
]

NOT_SELECTED = [
    "1=2",
    "count = 6",
    "count = '5'",
    "NOT count = '5'",
    "count <> '5'",
    "routingKey = 'PRIMARY.t1.0.g.w'",
    "routingKey LIKE 'primary.%.1.%'",
    "routingKey LIKE 'primary'",
    "routingKey LIKE '_'",
    "percent LIKE '100!%x' ESCAPE '!'",
    "under_score LIKE 'a!_c' ESCAPE '!'",
    "count LIKE '5'",
    "NOT count LIKE '5'",
    "flag > FALSE",
    "flag = 1",
    "missing = 1",
    "missing <> 1",
    "NOT missing = 1",
    "missing NOT IN (1)",
    "missing NOT LIKE 'a'",
    "missing = NULL OR NULL = NULL",
    "missing = 1 OR count = 4",
    "NOT (missing = 1 OR count = 4)",
    "missing = 1 AND count = 5",
    "count NOT IN (1, 5)",
    "EXISTS(missing)",
    "count IS NULL",
    "user.Label = 'task-pending'",
]

CORRELATIONS: list[tuple[dict[str, Any], bool]] = [
    ({"label": "task-pending"}, True),
    ({"label": "TASK-PENDING"}, False),
    ({"label": "task-pending", "messageId": "m-1", "correlationId": "c", "to": "t", "replyTo": "r"}, True),
    ({"label": "task-pending", "messageId": "m-2"}, False),
    ({"contentType": ""}, False),
    ({"properties": {"routingkey": "primary.t1.0.g.w", "COUNT": 5, "flag": True, "ratio": 2.5}}, True),
    ({"properties": {"count": 5, "flag": False}}, False),
    ({"properties": {"count": "5"}}, False),
    ({"properties": {"missing": "x"}}, False),
    ({"label": "task-pending", "properties": {"count": 5}}, True),
]


def _message() -> ServiceBusMessage:
    return ServiceBusMessage("x", application_properties=USER, **SYSTEM)  # type: ignore[arg-type] # by name


@pytest.fixture(scope="module")
def selected(service_bus: ServiceBus) -> set[str]:
    """Returns the names of the subscriptions that got the message; there is one for each filter of the tables."""
    filters: list[dict[str, Any]] = [
        *({"sql": sql} for sql in SELECTED + NOT_SELECTED),
        *({"correlation": correlation} for correlation, _ in CORRELATIONS),
        {"match": "all"},
        {"match": "none"},
        {"sql": "count = @N AND routingKey = @key", "parameters": {"@n": 5, "@key": USER["routingKey"]}},
    ]
    topic = new_topic(
        service_bus, *({"name": f"s{i}", "rules": [{"name": "r", **rule}]} for i, rule in enumerate(filters))
    )
    with client(service_bus) as bus:
        send(bus, topic, _message())
    numbers = service_bus.state()["topics"][topic]["subscriptions"]
    return {json.dumps(rule) for i, rule in enumerate(filters) if numbers[f"s{i}"]["active"] == 1}


@pytest.mark.parametrize("sql", SELECTED)
def test_sql_selects(selected: set[str], sql: str) -> None:
    assert json.dumps({"sql": sql}) in selected


@pytest.mark.parametrize("sql", NOT_SELECTED)
def test_sql_does_not_select(selected: set[str], sql: str) -> None:
    assert json.dumps({"sql": sql}) not in selected


@pytest.mark.parametrize(("correlation", "expected"), CORRELATIONS, ids=str)
def test_correlation(selected: set[str], correlation: dict[str, Any], expected: bool) -> None:
    assert (json.dumps({"correlation": correlation}) in selected) == expected


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"name": "r"}, "needs one of the keys"),
        ({"name": "r", "correlation": {}}, "at least one condition"),
        ({"name": "r", "correlation": {"labels": "x"}}, "has no field labels"),
        ({"name": "r", "correlation": {"label": 5}}, "label must be a string"),
        ({"name": "r", "match": "some"}, "all or none"),
        ({"name": "a/b", "match": "all"}, "a rule needs a name"),
        ({"name": "r" * 51, "match": "all"}, "a rule needs a name"),
        ({"name": "r", "sql": "1=1", "action": "SET a = 1"}, "unknown key: action"),
    ],
    ids=str,
)
def test_a_bad_rule_is_refused(service_bus: ServiceBus, rule: dict[str, Any], error: str) -> None:
    topic = new_topic(service_bus)
    with pytest.raises(ControlError, match=error):
        service_bus.add_subscription(topic, "new", rules=[rule])


@pytest.fixture(scope="module")
def evaluate() -> Iterator[Evaluator]:
    with evaluating() as evaluator:
        yield evaluator


def _like(text: str, pattern: list[tuple[str, str]]) -> bool:
    """Implements LIKE for comparison: tries a pattern, given as parts, in every way."""
    if not pattern:
        return text == ""
    (kind, literal), rest = pattern[0], pattern[1:]
    if kind == "any":
        return any(_like(text[cut:], rest) for cut in range(len(text) + 1))
    return text != "" and (kind == "one" or text[0] == literal) and _like(text[1:], rest)


CHARACTERS = st.sampled_from("ab%_!'.\n😀")
PATTERN = st.lists(
    st.one_of(st.just(("any", "%")), st.just(("one", "_")), CHARACTERS.map(lambda c: ("literal", c))), max_size=6
)


@given(text=st.text(CHARACTERS, max_size=6), pattern=PATTERN)
def test_like_agrees_with_the_reference(evaluate: Evaluator, text: str, pattern: list[tuple[str, str]]) -> None:
    written = "".join("!" + part if kind == "literal" and part in "%_!" else part for kind, part in pattern)
    quoted = written.replace("'", "''")
    assert evaluate(f"a LIKE '{quoted}' ESCAPE '!'", a=text) == _like(text, pattern)
