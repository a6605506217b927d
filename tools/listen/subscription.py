"""A subscription that exists as long as somebody listens, with the rules of routing-key patterns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.aio.management import ServiceBusAdministrationClient
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter, TrueRuleFilter

from shared.queue.events.rules import Exchange
from tools.listen.filters import CorrelationRule, Rule, SqlRule, TrueRule, rules_for

DEFAULT_RULE = "$Default"
"""The rule that a new subscription has: it lets everything in, so ours must replace it, not join it."""


def rules_for_any(exchange: Exchange, patterns: Sequence[str]) -> tuple[Rule, ...]:
    """Returns the rules of several patterns, each once. Raises PatternError."""
    rules: list[Rule] = []
    for pattern in patterns:
        rules += [rule for rule in rules_for(exchange, pattern) if rule not in rules]
    return (TrueRule(),) if TrueRule() in rules else tuple(rules)


def to_filter(rule: Rule) -> TrueRuleFilter | CorrelationRuleFilter | SqlRuleFilter:
    """Returns the rule as the SDK's administration client takes it."""
    match rule:
        case TrueRule():
            return TrueRuleFilter()
        case CorrelationRule(properties):
            return CorrelationRuleFilter(properties={**properties})
        case SqlRule(expression):
            return SqlRuleFilter(expression)


@asynccontextmanager
async def subscription(
    admin: ServiceBusAdministrationClient, topic: str, name: str, rules: Sequence[Rule], idle: timedelta
) -> AsyncIterator[None]:
    """Creates the subscription and removes it at the end; left alone, it goes when it was idle for `idle`.

    Needs the right to manage the topic. Messages that come before the rules are in place get in without them. Raises
    what the SDK raises.
    """
    await admin.create_subscription(topic, name, auto_delete_on_idle=idle)
    try:
        if tuple(rules) != (TrueRule(),):
            for index, rule in enumerate(rules):
                await admin.create_rule(topic, name, f"rule-{index}", filter=to_filter(rule))
            await admin.delete_rule(topic, name, DEFAULT_RULE)
        yield
    finally:
        with suppress(ResourceNotFoundError):
            await admin.delete_subscription(topic, name)
