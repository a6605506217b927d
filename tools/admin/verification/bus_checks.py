"""Service Bus: topics, duplicates, filters and rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter

from shared.base.settings import Settings
from shared.queue.events.exchanges import TOPICS
from tools.admin.verification.core import PREFIX, Check, Deployment, expect

WAIT = 5
"""Seconds after which nothing more is expected in a subscription."""
FULL = 0.8
"""Share of a limit from which on an operator should act."""
TOPICS_OF_A_NAMESPACE = {"Standard": 10_000, "Premium": 1_000}
"""The most topics and queues of a namespace; of a Premium one, for each messaging unit."""
SUBSCRIPTIONS = 2_000
SQL_FILTERS = 2_000
CORRELATION_FILTERS = 100_000
"""The most correlation filters of one topic, in all of its subscriptions."""
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
    """Every topic exists, under its name with slashes, and detects duplicates."""
    _, admin = deployment.bus
    prefix = deployment.environment.get("TOPIC_PREFIX", "")
    found = {topic.name: topic for topic in admin.list_topics()}
    missing = [name for name in _own(deployment) if name not in found]
    expect(
        not missing, f"there is no topic {', '.join(missing)} (TOPIC_PREFIX is {prefix!r}); there are {sorted(found)}"
    )
    without = [name for name in _own(deployment) if not found[name].requires_duplicate_detection]
    expect(not without, f"these do not know duplicates: {', '.join(without)}")
    return f"{len(TOPICS)} topics"


def _own(deployment: Deployment) -> list[str]:
    """Returns the topics of the app."""
    prefix = deployment.environment.get("TOPIC_PREFIX", "")
    return [f"{prefix}{name}" for name in TOPICS]


def topic_room(deployment: Deployment) -> str:
    """No topic is close to its size limit, at which it refuses events. Messages that nobody receives fill it."""
    _, admin = deployment.bus
    shares = {}
    for name in _own(deployment):
        most = admin.get_topic(name).max_size_in_megabytes or 0
        expect(most > 0, f"{name} has no size")
        used = (admin.get_topic_runtime_properties(name).size_in_bytes or 0) / (most * 1024 * 1024)
        expect(used < FULL, f"{name} is full to {used:.0%} of {most} MB: a subscription is not read")
        shares[name] = used
    fullest = max(shares, key=lambda name: shares[name])
    return f"the fullest is {fullest}, at {shares[fullest]:.1%}"


def topic_limits(deployment: Deployment) -> str:
    """The namespace has room for more topics, and each topic for more subscriptions and filters."""
    _, admin = deployment.bus
    namespace = admin.get_namespace_properties()
    tier = str(getattr(namespace.messaging_sku, "value", namespace.messaging_sku))
    expect(tier in TOPICS_OF_A_NAMESPACE, f"the namespace is of the tier {tier}, which has no topics or other limits")
    most = TOPICS_OF_A_NAMESPACE[tier] * (namespace.messaging_units or 1 if tier == "Premium" else 1)
    count = sum(1 for _ in admin.list_topics()) + sum(1 for _ in admin.list_queues())
    expect(count < FULL * most, f"the namespace has {count} of {most} topics and queues")
    fullest = 0
    for topic in _own(deployment):
        subscriptions = [each.name for each in admin.list_subscriptions(topic)]
        expect(
            len(subscriptions) < FULL * SUBSCRIPTIONS,
            f"{topic} has {len(subscriptions)} of {SUBSCRIPTIONS} subscriptions",
        )
        rules = [rule.filter for each in subscriptions for rule in admin.list_rules(topic, each)]
        correlation = sum(isinstance(rule, CorrelationRuleFilter) for rule in rules)
        for kind, found, limit in (
            ("SQL filters", len(rules) - correlation, SQL_FILTERS),
            ("correlation filters", correlation, CORRELATION_FILTERS),
        ):
            expect(found < FULL * limit, f"{topic} has {found} of {limit} {kind}")
        fullest = max(fullest, len(subscriptions))
    return f"{tier}, {count} topics and queues, at most {fullest} subscriptions of a topic"


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
    """The second of two messages with one id is accepted and dropped."""
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
    Check("topic-room", topic_room),
    Check("topic-limits", topic_limits),
    Check("duplicates", duplicates),
    Check("sql-filters", filters),
    Check("default-rule", default_rule),
    Check("event-size", event_size),
)
