"""The reference of the exchanges, held against the public client that was generated from upstream's."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import taskcluster

from shared.app.reference.documents import exchanges_reference
from shared.queue.events.exchanges import ENTRIES, TOPICS, ExchangeEntry
from shared.queue.events.rules import Exchange
from tools.listen.filters import ENTRY_OF, parse_exchange, pattern_for

CLIENT = taskcluster.QueueEvents({"rootUrl": "https://tc.example.com"})


def test_every_exchange_has_one_entry_in_order() -> None:
    assert tuple(entry.exchange for entry in ENTRIES) == tuple(Exchange)
    assert tuple(entry["exchange"] for entry in exchanges_reference()["entries"]) == TOPICS


def test_the_reference_is_as_clients_expect_it() -> None:
    reference = exchanges_reference()
    entries = reference.pop("entries")
    assert {key: value for key, value in reference.items() if key not in ("title", "description")} == {
        "$schema": "/schemas/common/exchanges-reference-v0.json#",
        "serviceName": "queue",
        "apiVersion": "v1",
        "exchangePrefix": "exchange/taskcluster-queue/v1/",
    }
    for entry in entries:
        assert set(entry) == {"type", "exchange", "name", "title", "description", "schema", "routingKey"}
        assert entry["type"] == "topic-exchange"
        for word in entry["routingKey"]:
            assert set(word) - {"constant"} == {"name", "summary", "multipleWords", "required"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_public_client_knows_the_same_exchange(entry: ExchangeEntry) -> None:
    method = getattr(CLIENT, entry.name)
    assert method() == {
        "exchange": f"exchange/taskcluster-queue/v1/{entry.exchange.value}",
        "routingKeyPattern": pattern_for(entry.exchange, {}),
    }
    words = {name: f"x{index}" for index, name in enumerate(entry.words[1:-1])}
    assert method(words)["routingKeyPattern"] == pattern_for(entry.exchange, words)
    source = inspect.getsource(method)
    assert f'"schema": "{entry.schema}"' in source
    described = {name: f" * {name}: " in source for name in entry.words}
    assert all(described.values()), described
    required: dict[str, Any] = {
        line.split(":")[0].strip(" *"): line.rstrip().endswith("(required)")
        for line in source.splitlines()
        if line.strip().startswith("* ")
    }
    assert required == {word.name: word.required for word in entry.routing_key}


def test_exchanges_are_found_by_each_of_their_names() -> None:
    for entry in ENTRIES:
        for name in (entry.exchange.value, entry.name, f"exchange/taskcluster-queue/v1/{entry.exchange.value}"):
            assert parse_exchange(name) is entry.exchange
        assert ENTRY_OF[entry.exchange] is entry
    with pytest.raises(ValueError, match="the exchanges are task-defined, "):
        parse_exchange("tasks")
