"""Service Bus: topics, duplicates, filters and rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import SqlRuleFilter

from admin.verification.core import PREFIX, Check, Deployment, expect
from shared.events.exchanges import TOPICS
from shared.settings import Settings

WAIT = 5
"""Seconds after which nothing more is expected in a subscription."""
FILTERS = {
    "by a word, whatever the case of the property's name": ("WORKERTYPE = 'linux'", True),
    "by a word in another case": ("workerType = 'Linux'", False),
    "by a pattern": (r"routes LIKE '%|route.index.a.%'", True),
    "by a pattern in another case": (r"routes LIKE '%|ROUTE.index.a.%'", False),
    "by a pattern with an escaped wildcard": (r"routes LIKE '%a^_b|%' ESCAPE '^'", True),
    "by a wildcard that is escaped and does not match": (r"routes LIKE '%x^_b|%' ESCAPE '^'", False),
    "by a property that is not there": ("nothing = 'x'", False),
    "by not having one": ("NOT EXISTS(nothing)", True),
}
"""Filters, and whether they let the message of the check through."""
PROPERTIES: dict[str | bytes, int | float | bytes | bool | str | UUID] = {
    "workerType": "linux",
    "routes": "|route.index.a.b|route.a_b|route.xyb|",
}


def topics(deployment: Deployment) -> str:
    """Every topic is there, under its name with slashes, and knows duplicates."""
    _, admin = deployment.bus
    prefix = deployment.environment.get("TOPIC_PREFIX", "")
    found = {topic.name: topic for topic in admin.list_topics()}
    missing = [f"{prefix}{name}" for name in TOPICS if f"{prefix}{name}" not in found]
    expect(
        not missing, f"there is no topic {', '.join(missing)} (TOPIC_PREFIX is {prefix!r}); there are {sorted(found)}"
    )
    without = [name for name in TOPICS if not found[f"{prefix}{name}"].requires_duplicate_detection]
    expect(not without, f"these do not know duplicates: {', '.join(without)}")
    return f"{len(TOPICS)} topics"


@contextmanager
def _topic(deployment: Deployment) -> Iterator[str]:
    _, admin = deployment.bus
    name = f"{PREFIX}-{deployment.suffix}"
    admin.create_topic(name, requires_duplicate_detection=True, default_message_time_to_live=timedelta(minutes=10))
    try:
        yield name
    finally:
        admin.delete_topic(name)


def _received(deployment: Deployment, topic: str, subscription: str) -> int:
    client, _ = deployment.bus
    with client.get_subscription_receiver(topic, subscription) as receiver:
        count = 0
        while messages := receiver.receive_messages(max_message_count=10, max_wait_time=WAIT):
            count += len(messages)
            for message in messages:
                receiver.complete_message(message)
    return count


def duplicates(deployment: Deployment) -> None:
    """Of two messages with one id the second is accepted and dropped."""
    client, admin = deployment.bus
    with _topic(deployment) as topic:
        admin.create_subscription(topic, "all")
        with client.get_topic_sender(topic) as sender:
            for body in ("first", "again"):
                sender.send_messages(ServiceBusMessage(body, message_id="one"))
            sender.send_messages(ServiceBusMessage("other", message_id="two"))
        count = _received(deployment, topic, "all")
        expect(count == 2, f"of two ids, one of them sent twice, {count} messages arrive")


def filters(deployment: Deployment) -> str:
    """SQL filters, as `listen` writes them, let through what they say."""
    client, admin = deployment.bus
    with _topic(deployment) as topic:
        for number, (expression, _) in enumerate(FILTERS.values()):
            admin.create_subscription(topic, f"s{number}")
            admin.create_rule(topic, f"s{number}", "rule", filter=SqlRuleFilter(expression))
            admin.delete_rule(topic, f"s{number}", "$Default")
        with client.get_topic_sender(topic) as sender:
            sender.send_messages(ServiceBusMessage("a", application_properties=PROPERTIES))
        for number, (name, (expression, wanted)) in enumerate(FILTERS.items()):
            passed = admin.get_subscription_runtime_properties(topic, f"s{number}").active_message_count
            expect(passed == wanted, f"{name}, {expression}: {passed} messages pass")
    return f"{len(FILTERS)} filters"


def default_rule(deployment: Deployment) -> None:
    """A new subscription has the rule $Default, which lets everything through."""
    _, admin = deployment.bus
    with _topic(deployment) as topic:
        admin.create_subscription(topic, "all")
        rules = [rule.name for rule in admin.list_rules(topic, "all")]
        expect(rules == ["$Default"], f"a new subscription has the rules {rules}")


def event_size(deployment: Deployment) -> str:
    """A message may have as many bytes as the app lets an event have by default."""
    client, admin = deployment.bus
    size = int(Settings.model_fields["event_size_limit"].default)
    with _topic(deployment) as topic:
        admin.create_subscription(topic, "all")
        with client.get_topic_sender(topic) as sender:
            sender.send_messages(ServiceBusMessage(bytes(size)))
        expect(_received(deployment, topic, "all") == 1, f"a message of {size} bytes does not arrive")
    return f"{size} bytes"


CHECKS = (
    Check("topics", topics),
    Check("duplicates", duplicates),
    Check("sql-filters", filters),
    Check("default-rule", default_rule),
    Check("event-size", event_size),
)
