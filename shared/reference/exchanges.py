"""exchanges.json, as clients are generated from it (contract 1.1)."""

from __future__ import annotations

from typing import Any

from shared.events.exchanges import ENTRIES, EXCHANGE_PREFIX, Entry, Word


def exchanges_reference() -> dict[str, Any]:
    """The reference document of the exchanges."""
    return {
        "$schema": "/schemas/common/exchanges-reference-v0.json#",
        "serviceName": "queue",
        "apiVersion": "v1",
        "title": "Queue Exchanges",
        "description": "What happens to tasks, artifacts and task groups, as messages. Each exchange is a Service Bus "
        "topic of the same short name. Every message about a task carries the task's primary routing key and, for "
        "each entry of `task.routes`, the key `route.<entry>`; a subscription gets one copy of a message however "
        "many patterns match. Delivery is at least once, without a promise of order.",
        "exchangePrefix": EXCHANGE_PREFIX,
        "entries": [_entry(entry) for entry in ENTRIES],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "type": "topic-exchange",
        "exchange": entry.exchange.value,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "schema": entry.schema,
        "routingKey": [_word(word) for word in entry.routing_key],
    }


def _word(word: Word) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": word.name, "summary": word.summary}
    if word.constant is not None:
        shown["constant"] = word.constant
    return {**shown, "multipleWords": word.multiple_words, "required": word.required}
