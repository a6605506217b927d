"""The tables of docs/contract.md agree with the code: routes, bodies and scopes of endpoints (2.1, 2.2, 18.2), messages
(10). Of endpoints' effects and of schemas' properties it is only seen that the contract speaks of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from shared.api.endpoint import PAGING, Endpoint
from shared.app.apis import INDEX, QUEUE
from shared.app.reference.schemas import models_of, schema_of
from shared.index import endpoints as index
from shared.queue.events.exchanges import ENTRIES
from shared.queue.events.models import MESSAGES, Artifact
from tests.promises.compatibility.rows import ROWS
from tools.local.state import ROOT

OF_INDEX = [endpoint for endpoint in INDEX.endpoints if endpoint.handler.__module__ == index.__name__]
OF_QUEUE = {endpoint.name: endpoint for endpoint in QUEUE.endpoints}
NO_ENDPOINTS = {"accessTasks", "completeArtifact", "pollTaskUrl"}
"""Names in the contract of one endpoint that is not served, and of old names for others."""
NO_SCOPES = {"ping", "lbheartbeat", "version", "heartbeat"}
SAID_BY_THE_OVERVIEW = {
    "lbheartbeat",
    "heartbeat",
    "getTaskGroup",
    "getProvisioner",
    "declareProvisioner",
    "listWorkerTypes",
    "declareWorkerType",
    "pendingTasks",
    "taskQueueCountsBatch",
}
"""Endpoints whose rows in 2.1 to 2.3 say all that they do."""


def section(name: str, following: str) -> str:
    text = (ROOT / "docs" / "contract.md").read_text()
    return text[text.index(f'<a id="contract-{name}"></a>') : text.index(f'<a id="contract-{following}"></a>')]


def rows(text: str) -> list[list[str]]:
    """Returns the cells of each row of a table, without its head."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)]
    return [row for row in found[1:] if not set("".join(row)) <= {"-"}]


def overview() -> dict[str, list[str]]:
    found = {}
    for _, title, *cells in rows(section("2-1", "2-2")):
        name = title.split(" ")[0]
        if "`xmlMessage`" not in title and name not in NO_ENDPOINTS:
            assert name not in found, name
            found[name] = cells
    return found


OVERVIEW = overview()


def test_every_endpoint_has_a_row() -> None:
    assert set(OVERVIEW) == set(OF_QUEUE) <= {row.served_by for row in ROWS}


def test_row_of_an_endpoint() -> None:
    for name, endpoint in OF_QUEUE.items():
        route, query, given, answer, check = OVERVIEW[name]
        method, path = re.match(r"(\w+) `([^`]+)`", route).groups()  # type: ignore[union-attr]
        assert (method, path) == (endpoint.method, endpoint.route), name
        options = set(PAGING) if "pg" in query.split(", ") else set()
        assert options | set(re.findall(r"`(\w+)`", query)) == set(endpoint.query), name
        assert given == (endpoint.input_schema or ""), name
        assert answer.removesuffix("free") == (endpoint.output_schema or ""), name
        assert check == ("-" if endpoint.scopes is None else "U" if endpoint.authorised_by_url else "H"), name
        stated = re.search(r", (20\d|303)", route)
        assert endpoint.success == int(stated[1] if stated else 200), name


def is_named(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def test_effect_of_every_endpoint_is_described() -> None:
    text = (ROOT / "docs" / "contract.md").read_text()
    effects = text.replace(section("2-1", "2-4"), "")
    silent = {name for name in OF_QUEUE if not is_named(name, effects)}
    assert silent == SAID_BY_THE_OVERVIEW, "describe it in 2.4, 2.5, or the section of its subject"


def properties(schema: Any) -> Iterator[str]:
    """Yields the names of all properties, at any depth."""
    match schema:
        case dict():
            for name, part in schema.items():
                if name == "properties":
                    yield from part
                yield from properties(part)
        case list():
            for part in schema:
                yield from properties(part)


def test_schema_of_a_body_is_described_with_all_properties() -> None:
    words = set(re.findall(r"[\w-]+", (ROOT / "docs" / "contract.md").read_text()))
    for name, model in models_of(QUEUE.endpoints).items():
        missing = {each for each in (name, *properties(schema_of(model))) if each not in words}
        assert not missing, f"{name}: describe them in the schema's row in 2.3, or the section of their subject"


def messages() -> dict[str, str]:
    """Returns what the contract says of the payload of each topic."""
    found: dict[str, str] = {}
    before = ""
    for _, names, payload, *_ in rows(section("10", "11")):
        before = before if payload == "the same" else payload
        found |= dict.fromkeys(names.split(", "), before)
    return found


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.exchange.value)
def test_row_of_a_message(entry: Any) -> None:
    payload = re.findall(r"\w+", messages()[entry.exchange.value])
    schema = schema_of(MESSAGES[entry.schema.removeprefix("v1/").removesuffix(".json#")])
    top = set(schema.get("properties", {})) - {"version"}
    assert top <= set(payload), "and upstream's schemas refuse a property that they do not have"
    assert set(payload) - top <= Artifact.model_fields.keys()


def strings(template: Any) -> Iterator[str]:
    """Yields the scopes of a scope template."""
    match template:
        case str():
            yield template
        case {"for": param, "each": each}:
            yield from (["<" + param + ">"] if each == f"<{param}>" else [each])
        case {"AllOf": parts} | {"AnyOf": parts}:
            for part in parts:
                yield from strings(part)
        case {"then": part}:
            yield from strings(part)


@cache
def scopes_of_rows() -> Mapping[frozenset[str], set[str]]:
    found = {}
    for names, scopes, before in rows(section("2-2", "2-3")):
        found[frozenset(names.split(", "))] = set(re.findall(r"`((?:queue|assume):[^`]*)`", scopes + before))
    return found


def test_every_endpoint_with_scopes_has_a_row_of_scopes() -> None:
    named = [name for names in scopes_of_rows() for name in names]
    assert sorted(named) == sorted(set(OF_QUEUE) - NO_SCOPES)


def spelled(scope: str) -> str:
    """Returns a scope with the parameters of a task queue as the contract writes them."""
    return scope.replace("<taskQueueId>", "<provisionerId>/<workerType>")


@pytest.mark.parametrize("names", scopes_of_rows(), ids=sorted)
def test_scopes_of_a_row(names: frozenset[str]) -> None:
    ours = {spelled(scope) for name in names for scope in strings(OF_QUEUE[name].scopes) if ":" in scope}
    assert ours == {spelled(scope) for scope in scopes_of_rows()[names]}


def index_rows() -> dict[str, list[str]]:
    return {name: cells for names, *cells in rows(section("18-2", "18-3")) for name in names.split(", ")}


@pytest.mark.parametrize("endpoint", OF_INDEX, ids=lambda endpoint: f"{endpoint.method} {endpoint.route}")
def test_row_of_an_endpoint_of_the_index(endpoint: Endpoint) -> None:
    route, scope, _ = index_rows()[endpoint.name]
    if "as the GET forms" in route:
        return
    method, path = route.split(" ", 1)
    assert method == endpoint.method
    assert endpoint.route in re.findall(r"`(/[^`]*)`", path)
    assert set(strings(endpoint.scopes)) == set(re.findall(r"`([^`]+)`", scope))
