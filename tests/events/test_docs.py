"""docs/events.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shared.queue.events.exchanges import ENTRIES, TOPICS
from shared.queue.events.rules import Exchange
from tests.events.builders import Life
from tools.listen.filters import CorrelationRule, PatternError, SqlRule, TrueRule, rules_for

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "events.md").read_text()
KINDS = {TrueRule: "true", CorrelationRule: "correlation", SqlRule: "sql"}
ROWS = re.findall(r"^\| `(\S+)` \| (true|correlation|sql) \| (\d+) \|$", TEXT, re.MULTILINE)


def test_every_topic_and_property_is_named() -> None:
    (message,) = Life.begin().schedule()
    named = [*TOPICS, *message.properties, *(word.name for entry in ENTRIES for word in entry.routing_key)]
    assert [name for name in named if f"`{name}`" not in TEXT] == []


@pytest.mark.parametrize(("pattern", "kind", "count"), ROWS)
def test_the_rules_of_the_patterns_are_as_it_says(pattern: str, kind: str, count: str) -> None:
    rules = rules_for(Exchange.TASK_PENDING, pattern)
    assert {KINDS[type(rule)] for rule in rules} == {kind}
    assert len(rules) == int(count)


def test_what_it_calls_inexpressible_is() -> None:
    assert len(ROWS) > 8
    assert "`route.#.main.*`" in TEXT
    with pytest.raises(PatternError):
        rules_for(Exchange.TASK_PENDING, "route.#.main.*")


def test_every_example_is_linked() -> None:
    linked = set(re.findall(r"\(examples/(\w+)\.py\)", TEXT))
    written = {path.stem for path in (DOCS / "examples").glob("*.py")} - {"__init__"}
    assert linked == written
