"""Microsoft's administration client against the local Service Bus: topics, subscriptions and rules."""

import datetime
import uuid
from collections.abc import Iterator

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from azure.servicebus._common import mgmt_handlers
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from tests.local.broker_support import client, counts, new_topic, receive, send, texts
from tools.local.service_bus import ServiceBus
from tools.local.service_bus_admin import PlainHttpTransport

pytestmark = [
    pytest.mark.usefixtures("quick_sdk"),
    # The SDK asks XML elements for their truth value.
    pytest.mark.filterwarnings("ignore:Testing an element's truth value:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The behavior of this method will change:FutureWarning"),
]

MINUTES = datetime.timedelta(minutes=5)


@pytest.fixture
def admin(service_bus: ServiceBus) -> Iterator[ServiceBusAdministrationClient]:
    with ServiceBusAdministrationClient.from_connection_string(
        service_bus.connection_string, transport=PlainHttpTransport(), retry_total=0
    ) as running:
        yield running


def test_a_topic_from_creation_to_deletion(service_bus: ServiceBus, admin: ServiceBusAdministrationClient) -> None:
    name = f"exchange/{uuid.uuid4().hex}"
    window = datetime.timedelta(days=1, minutes=2, seconds=3.5)
    created = admin.create_topic(
        name, requires_duplicate_detection=True, duplicate_detection_history_time_window=window
    )
    assert created.duplicate_detection_history_time_window == window
    with pytest.raises(ResourceExistsError):
        admin.create_topic(name)
    got = admin.get_topic(name)
    assert (got.name, got.requires_duplicate_detection) == (name, True)
    assert got.default_message_time_to_live == datetime.timedelta(10675199, 10085, 477581)  # the service's "forever"
    admin.create_subscription(name, "s")
    with client(service_bus) as bus:
        send(bus, name, "x")
    runtime = admin.get_topic_runtime_properties(name)
    assert (runtime.subscription_count, runtime.scheduled_message_count) == (1, 0)
    assert runtime.size_in_bytes
    got.duplicate_detection_history_time_window = MINUTES
    admin.update_topic(got)
    assert admin.get_topic(name).duplicate_detection_history_time_window == MINUTES
    assert counts(service_bus, name)["active"] == 1
    admin.delete_topic(name)
    with pytest.raises(ResourceNotFoundError):
        admin.get_topic(name)
    with pytest.raises(ResourceNotFoundError):
        admin.delete_topic(name)


def test_a_subscription_from_creation_to_deletion(
    service_bus: ServiceBus, admin: ServiceBusAdministrationClient
) -> None:
    topic = new_topic(service_bus)
    created = admin.create_subscription(
        topic,
        "mine",
        lock_duration=datetime.timedelta(seconds=30),
        max_delivery_count=3,
        auto_delete_on_idle=MINUTES,
        default_message_time_to_live="PT1H",
        dead_lettering_on_message_expiration=True,
    )
    assert created.lock_duration == datetime.timedelta(seconds=30)
    with pytest.raises(ResourceExistsError, match="exists"):
        admin.create_subscription(topic, "mine")
    got = admin.get_subscription(topic, "mine")
    assert (got.max_delivery_count, got.auto_delete_on_idle) == (3, MINUTES)
    assert got.default_message_time_to_live == datetime.timedelta(hours=1)
    assert got.dead_lettering_on_message_expiration is True
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "mine") as receiver:
        send(bus, topic, "a", "b")
        receiver.dead_letter_message(receive(receiver, 1)[0])
    runtime = admin.get_subscription_runtime_properties(topic, "mine")
    assert (runtime.active_message_count, runtime.dead_letter_message_count) == (1, 1)
    assert runtime.total_message_count == 2
    got.max_delivery_count = 5
    admin.update_subscription(topic, got)
    assert admin.get_subscription(topic, "mine").max_delivery_count == 5
    assert [one.name for one in admin.list_subscriptions(topic)] == ["s", "mine"]
    admin.delete_subscription(topic, "mine")
    with pytest.raises(ResourceNotFoundError):
        admin.get_subscription(topic, "mine")
    with pytest.raises(ResourceNotFoundError):
        admin.get_subscription("no-such-topic", "mine")


def test_a_new_subscription_has_a_default_rule_that_another_can_replace(
    service_bus: ServiceBus, admin: ServiceBusAdministrationClient
) -> None:
    topic = new_topic(service_bus)
    admin.create_subscription(topic, "mine")
    [default] = admin.list_rules(topic, "mine")
    assert default.name == "$Default"
    assert isinstance(default.filter, TrueRuleFilter)
    admin.delete_rule(topic, "mine", "$Default")
    admin.create_rule(topic, "mine", "wanted", filter=SqlRuleFilter("kind = 'x' AND n < 3"))
    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "mine") as receiver:
        for number, kind in enumerate("xyxxx"):
            send(bus, topic, ServiceBusMessage(str(number), application_properties={"kind": kind, "n": number}))
        assert texts(receive(receiver, 2)) == ["0", "2"]
        assert counts(service_bus, topic, "mine")["active"] == 2


def test_rules_come_back_as_they_were_made(service_bus: ServiceBus, admin: ServiceBusAdministrationClient) -> None:
    topic = new_topic(service_bus)
    properties = {"text": "<&'\" ä", "n": 5, "ratio": 2.5, "yes": True}
    correlation = CorrelationRuleFilter(label="a<b", message_id="m", properties=properties)  # type: ignore[arg-type]
    made = admin.create_rule(topic, "s", "correlation", filter=correlation)
    got = admin.get_rule(topic, "s", "correlation")
    for rule in (made, got):
        assert isinstance(rule.filter, CorrelationRuleFilter)
        assert (rule.filter.label, rule.filter.message_id, rule.filter.to) == ("a<b", "m", None)
        assert rule.filter.properties == properties
    admin.create_rule(topic, "s", "sql", filter=SqlRuleFilter("a = @p AND b LIKE '<%'", parameters={"@p": "x & y"}))
    sql = admin.get_rule(topic, "s", "SQL").filter
    assert isinstance(sql, SqlRuleFilter)
    assert (sql.sql_expression, dict(sql.parameters or {})) == ("a = @p AND b LIKE '<%'", {"@p": "x & y"})
    admin.create_rule(topic, "s", "none", filter=FalseRuleFilter())
    assert isinstance(admin.get_rule(topic, "s", "none").filter, FalseRuleFilter)
    with pytest.raises(ResourceExistsError):
        admin.create_rule(topic, "s", "none")
    rule = admin.get_rule(topic, "s", "none")
    rule.filter = SqlRuleFilter("c = 1")
    admin.update_rule(topic, "s", rule)
    changed = admin.get_rule(topic, "s", "none").filter
    assert isinstance(changed, SqlRuleFilter)
    assert changed.sql_expression == "c = 1"
    assert [one.name for one in admin.list_rules(topic, "s")] == ["$Default", "correlation", "sql", "none"]
    with pytest.raises(ResourceNotFoundError):
        admin.get_rule(topic, "s", "missing")
    with pytest.raises(ResourceNotFoundError):
        admin.delete_rule(topic, "s", "missing")


def test_what_is_wrong_is_said_and_changes_nothing(
    service_bus: ServiceBus, admin: ServiceBusAdministrationClient
) -> None:
    topic = new_topic(service_bus)
    with pytest.raises(HttpResponseError, match="expected a comparison") as bad:
        admin.create_rule(topic, "s", "bad", filter=SqlRuleFilter("count"))
    assert bad.value.status_code == 400
    with pytest.raises(HttpResponseError, match="actions are not offered"):
        admin.create_rule(topic, "s", "bad", action=SqlRuleAction("SET a = 1"))
    with pytest.raises(HttpResponseError, match="at least one condition"):
        admin.create_rule(topic, "s", "bad", filter=CorrelationRuleFilter())
    assert [rule.name for rule in admin.list_rules(topic, "s")] == ["$Default"]
    with pytest.raises(HttpResponseError, match="at least 300 seconds"):
        admin.create_subscription(topic, "bad", auto_delete_on_idle="PT10S")
    with pytest.raises(HttpResponseError, match="RequiresSession is not offered"):
        admin.create_subscription(topic, "bad", requires_session=True)
    with pytest.raises(HttpResponseError, match="not a duration"):
        admin.create_subscription(topic, "bad", lock_duration="P1Y")
    with pytest.raises(HttpResponseError, match="a subscription needs a name"):
        admin.create_subscription(topic, "b" * 51)
    assert [one.name for one in admin.list_subscriptions(topic)] == ["s"]


def test_rules_over_amqp(service_bus: ServiceBus) -> None:
    """Other languages' SDKs manage rules over AMQP; Python's has the means but no methods."""
    topic = new_topic(service_bus)

    with client(service_bus) as bus, bus.get_subscription_receiver(topic, "s") as receiver:

        def request(operation: str, body: dict[str, object]) -> dict[bytes, list[dict[bytes, list[object]]]]:
            answer: dict[bytes, list[dict[bytes, list[object]]]] = receiver._mgmt_request_response_with_retry(
                f"com.microsoft:{operation}".encode(), body, mgmt_handlers.default
            )
            return answer

        correlation = {"label": "x", "properties": {"n": 1}}
        request("add-rule", {"rule-name": "sql", "rule-description": {"sql-filter": {"expression": "a = 1"}}})
        request("add-rule", {"rule-name": "c", "rule-description": {"correlation-filter": correlation}})
        request("remove-rule", {"rule-name": "$Default"})
        rules = request("enumerate-rules", {"top": 10, "skip": 0})[b"rules"]
        described = [rule[b"rule-description"] for rule in rules]
        assert [rule[2] for rule in described] == [b"sql", b"c"]
        assert described[0][0][0] == b"a = 1"  # type: ignore[index] # a list within the list
        with pytest.raises(Exception, match="needs a sql-filter or a correlation-filter"):
            request("add-rule", {"rule-name": "bad", "rule-description": {}})
        with pytest.raises(Exception, match="rule \\$Default of subscription s does not exist"):
            request("remove-rule", {"rule-name": "$Default"})
        with pytest.raises(Exception, match="get-message-sessions is not offered"):
            request("get-message-sessions", {})
        send(bus, topic, ServiceBusMessage("no"), ServiceBusMessage("yes", application_properties={"a": 1}))
        assert texts(receive(receiver, 1)) == ["yes"]
    assert counts(service_bus, topic)["active"] == 1
