"""Every check of `verify` finds what is planted in services that are otherwise real."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableTransactionError, UpdateMode
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter
from azure.storage.queue import generate_queue_sas

from tests.promises.admin import test_verify, test_verify_azure, test_verify_description
from tests.promises.admin.test_verify import Front, _listening
from tools.admin.verification import CHECKS, bus_checks, front_checks
from tools.admin.verification.core import Deployment, Outcome, run
from tools.local.azurite import ACCOUNT_KEY
from tools.local.stack import Stack


class Otherwise:
    """Something real with some methods replaced. These get the real thing as their first argument."""

    def __init__(self, real: Any, **methods: Callable[..., Any]) -> None:
        self._real = real
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            return lambda *args, **options: self._methods[name](self._real, *args, **options)
        return getattr(self._real, name)

    def __enter__(self) -> Otherwise:
        self._real.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._real.__exit__(*exception)


def refuse(code: str) -> None:
    error = HttpResponseError(message=code)
    error.error_code = code  # type: ignore[attr-defined]  # as the storage clients do
    raise error


Plant = Callable[[Deployment], None]


def _tables(**methods: Callable[..., Any]) -> Plant:
    def plant(deployment: Deployment) -> None:
        deployment.table = Otherwise(deployment.table, **methods)  # type: ignore[assignment]  # a stand-in

    return plant


def _blob(**methods: Callable[..., Any]) -> Plant:
    def plant(deployment: Deployment) -> None:
        opened = {"get_blob_client": lambda real, name: Otherwise(real.get_blob_client(name), **methods)}
        deployment.container = Otherwise(deployment.container, **opened)  # type: ignore[assignment]  # a stand-in

    return plant


def _admin(**methods: Callable[..., Any]) -> Plant:
    def plant(deployment: Deployment) -> None:
        client, admin = deployment.bus
        deployment.bus = client, Otherwise(admin, **methods)  # type: ignore[assignment]  # a stand-in

    return plant


def _sender(**methods: Callable[..., Any]) -> Plant:
    def plant(deployment: Deployment) -> None:
        client, admin = deployment.bus
        opened = {"get_topic_sender": lambda real, topic: Otherwise(real.get_topic_sender(topic), **methods)}
        deployment.bus = Otherwise(client, **opened), admin  # type: ignore[assignment]  # a stand-in

    return plant


def _timers(*runs: tuple[str, timedelta]) -> Plant:
    """Plants the host's record of timers: their names, and how long ago they ran."""

    def plant(deployment: Deployment) -> None:
        now = datetime.now(UTC)
        blobs = [SimpleNamespace(name=f"timers/app/Host.{name}/status", last_modified=now - ago) for name, ago in runs]
        container = SimpleNamespace(list_blobs=lambda name_starts_with: blobs)
        deployment.blobs = SimpleNamespace(get_container_client=lambda name: container)  # type: ignore[assignment]

    return plant


def leave_half(real: Any, operations: list[Any]) -> Any:
    try:
        return real.submit_transaction(operations)
    except TableTransactionError:
        real.upsert_entity(operations[0][1])
        raise


def name_the_first(real: Any, operations: list[Any]) -> Any:
    try:
        return real.submit_transaction(operations)
    except TableTransactionError as error:
        error.index = 0
        raise


def forget_conditions(real: Any, operations: list[Any]) -> Any:
    return real.submit_transaction([operation[:2] for operation in operations])


def make_what_is_missing(real: Any, operations: list[Any]) -> Any:
    merges = {"mode": UpdateMode.MERGE}
    return real.submit_transaction([("upsert", *each[1:]) if merges in each else each for each in operations])


def at_most(count: int) -> Callable[..., Any]:
    def submit(real: Any, operations: Any) -> Any:
        listed = list(operations)
        return refuse("InvalidInput") if len(listed) > count else real.submit_transaction(listed)

    return submit


def take_any_number(real: Any, operations: Any) -> None:
    """Accepts every transaction."""


def in_order_of_words(real: Any, query: str) -> Any:
    return sorted(real.query_entities(query), key=lambda row: row["RowKey"].lower())


def within(size: int) -> Callable[..., Any]:
    def create(real: Any, row: dict[str, Any]) -> Any:
        total = sum(len(value) for value in row.values())
        return refuse("EntityTooLarge") if total > size else real.create_entity(row)

    return create


def shown_at_once(real: Any, block_id: str, content: bytes) -> None:
    real.upload_blob(content)
    real.stage_block(block_id, content)


def commit_again(real: Any, blocks: Any, **_: Any) -> Any:
    return real.commit_block_list(blocks)


def other_content(real: Any) -> Any:
    return SimpleNamespace(readall=lambda: b"other")


def forgets_duplicates(real: Any, name: str, **options: Any) -> Any:
    return real.create_topic(name, **{**options, "requires_duplicate_detection": False})


def drops_all(real: Any, messages: ServiceBusMessage) -> None:
    """Accepts a message and loses it."""


def filters_changed(before: str, after: str) -> Callable[..., Any]:
    """Makes a filter behave as if its expression were another one: as a service would that reads it in another way."""

    def create(real: Any, topic: str, subscription: str, name: str, *, filter: SqlRuleFilter) -> Any:
        changed = SqlRuleFilter(str(filter.sql_expression).replace(before, after))
        return real.create_rule(topic, subscription, name, filter=changed)

    return create


def without_a_rule(real: Any, topic: str, subscription: str) -> Any:
    return []


def too_large(real: Any, message: ServiceBusMessage) -> None:
    raise MessageSizeExceededError(message="the message is too large")


def nearly_full(real: Any, name: str) -> Any:
    return SimpleNamespace(size_in_bytes=real.get_topic(name).max_size_in_megabytes * 1024 * 900)


def without_a_size(real: Any, name: str) -> Any:
    return SimpleNamespace(max_size_in_megabytes=0)


def no_duplicates_known(real: Any) -> Any:
    return [SimpleNamespace(name=topic.name, requires_duplicate_detection=False) for topic in real.list_topics()]


def many(count: int) -> Callable[..., Any]:
    return lambda real, *_: [SimpleNamespace(name=str(number)) for number in range(count)]


def rules_of(filter: Any, count: int) -> dict[str, Callable[..., Any]]:
    return {"list_subscriptions": many(1), "list_rules": lambda *_: [SimpleNamespace(filter=filter)] * count}


def of_the_tier(tier: str) -> Callable[..., Any]:
    return lambda real: SimpleNamespace(messaging_sku=tier, messaging_units=1)


PLANTS: tuple[tuple[str, str, Plant], ...] = (
    ("conditional-transactions", "left a row behind", _tables(submit_transaction=leave_half)),
    ("conditional-transactions", "row 0 is refused", _tables(submit_transaction=name_the_first)),
    ("conditional-transactions", "is committed", _tables(submit_transaction=forget_conditions)),
    ("conditional-transactions", "ResourceNotFound is committed", _tables(submit_transaction=make_what_is_missing)),
    ("transactions-of-a-hundred", "one of 101 is accepted", _tables(submit_transaction=take_any_number)),
    ("transactions-of-a-hundred", "InvalidInput", _tables(submit_transaction=at_most(50))),
    ("keys-sort-by-code", "rows come in the order", _tables(query_entities=in_order_of_words)),
    ("row-sizes", "a row that is too large is accepted", lambda _: None),
    ("row-sizes", "EntityTooLarge", _tables(create_entity=within(32 * 1024))),
    ("blocks-commit-once", "visible before it is committed", _blob(stage_block=shown_at_once)),
    ("blocks-commit-once", "is accepted", _blob(commit_block_list=commit_again)),
    ("blocks-commit-once", "not what was uploaded", _blob(download_blob=other_content)),
    ("timers-run", "no record of timers", _timers()),
    ("timers-run", "no record of reconcile", _timers(("expire", timedelta(minutes=1)))),
    ("timers-run", "expire ran", _timers(("expire", timedelta(minutes=21)), ("reconcile", timedelta(minutes=1)))),
    ("timers-run", "reconcile ran", _timers(("expire", timedelta(minutes=1)), ("reconcile", timedelta(minutes=11)))),
    ("topics", "do not know duplicates", _admin(list_topics=no_duplicates_known)),
    ("topic-room", "is full to 88%", _admin(get_topic_runtime_properties=nearly_full)),
    ("topic-room", "has no size", _admin(get_topic=without_a_size)),
    ("topic-limits", "1700 of 2000 subscriptions", _admin(list_subscriptions=many(1_700))),
    ("topic-limits", "1600 of 2000 SQL filters", _admin(**rules_of(SqlRuleFilter("1=1"), 1_600))),
    ("topic-limits", "of 100000 correlation filters", _admin(**rules_of(CorrelationRuleFilter(), 80_000))),
    ("topic-limits", "9000 of 10000 topics", _admin(list_topics=many(9_000))),
    ("topic-limits", "tier Basic", _admin(get_namespace_properties=of_the_tier("Basic"))),
    ("topic-limits", "of 1000 topics", _admin(get_namespace_properties=of_the_tier("Premium"), list_topics=many(900))),
    ("duplicates", "3 messages arrive", _admin(create_topic=forgets_duplicates)),
    ("sql-filters", "in another case", _admin(create_rule=filters_changed("Linux", "linux"))),
    ("sql-filters", "a pattern in another case", _admin(create_rule=filters_changed("ROUTE", "route"))),
    ("sql-filters", "is escaped and does not match", _admin(create_rule=filters_changed("x^_b", "x_b"))),
    ("sql-filters", "property that is not there", _admin(create_rule=filters_changed("nothing = 'x'", "1 = 1"))),
    ("default-rule", "has the rules []", _admin(list_rules=without_a_rule)),
    ("event-size", "too large", _sender(send_messages=too_large)),
    ("event-size", "does not arrive", _sender(send_messages=drops_all)),
)


@contextmanager
def _deployment(stack: Stack, plant: Plant) -> Iterator[Deployment]:
    """Yields a deployment with the plant, in which differences of emulators count like any other."""
    with Deployment(stack.environment) as deployment:
        deployment.emulated = False
        plant(deployment)
        yield deployment


def _outcome(deployment: Deployment, name: str) -> Outcome:
    (outcome,) = run(deployment, [check for check in CHECKS if check.name == name])
    return outcome


@pytest.mark.parametrize(("check", "found", "plant"), PLANTS, ids=[f"{check}: {found}" for check, found, _ in PLANTS])
def test_what_does_otherwise_is_found(
    stack: Stack, check: str, found: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_checks, "WAIT", 0.5)
    with _deployment(stack, plant) as deployment:
        outcome = _outcome(deployment, check)
    assert outcome.result == "differs", outcome
    assert found in outcome.found


RIGHT: tuple[tuple[str, Plant], ...] = (
    ("transactions-of-a-hundred", _tables(submit_transaction=at_most(100))),
    ("row-sizes", _tables(create_entity=within(1024 * 1024))),
    ("timers-run", _timers(("expire", timedelta(minutes=19)), ("reconcile", timedelta(minutes=9)))),
)
"""For each difference between the local stack and Azure, a plant that does what Azure does."""


@pytest.mark.parametrize(("check", "plant"), RIGHT, ids=[check for check, _ in RIGHT])
def test_what_does_as_azure_holds(stack: Stack, check: str, plant: Plant) -> None:
    with _deployment(stack, plant) as deployment:
        outcome = _outcome(deployment, check)
    assert outcome.result == "holds", outcome


class Rewriting(Front):
    """A front end that changes what the app says in its answers."""

    def __init__(self, stack: Stack, change: Callable[[str, Any], Any]) -> None:
        super().__init__(stack, "")
        self._change = change

    def changed(self, path: str, content: bytes) -> bytes:
        """Returns the body as it is passed on."""
        try:
            body = json.loads(content)
        except ValueError:
            return content
        return json.dumps(self._change(path, body)).encode()


def grants_more(path: str, body: Any) -> Any:
    """Makes URLs for polling with which everything is allowed, as the account's key can sign them."""
    for queue in body.get("queues", ()):
        url = urlsplit(queue["signedPollUrl"])
        _, account, name, _ = url.path.split("/")
        signature = generate_queue_sas(
            account, name, ACCOUNT_KEY, permission="raup", expiry=datetime.now(UTC) + timedelta(minutes=5)
        )
        visibility = parse_qs(url.query)["visibilitytimeout"][0]
        queue["signedPollUrl"] = f"{url._replace(query=f'visibilitytimeout={visibility}&{signature}').geturl()}"
    return body


def finds_no_task(path: str, body: Any) -> Any:
    return {**body, "tasks": []} if "tasks" in body else body


def loses_the_upload(path: str, body: Any) -> Any:
    return {**body, "putUrl": f"{body['putUrl'].partition('?')[0]}?sig=nonsense"} if "putUrl" in body else body


def ends_otherwise(path: str, body: Any) -> Any:
    if path.endswith("/completed"):
        body["status"]["state"] = "failed"
    return body


REWRITTEN = (
    ("poll-rights", "peeking with a URL for polling answers 200", grants_more),
    ("one-task", "no worker is given the task", finds_no_task),
    ("one-task", "the upload is answered with 4", loses_the_upload),
    ("one-task", "the task is failed", ends_otherwise),
)


@pytest.mark.parametrize(("check", "found", "change"), REWRITTEN, ids=[found for _, found, _ in REWRITTEN])
def test_answers_that_say_otherwise_are_found(
    fronted: Stack, check: str, found: str, change: Callable[[str, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_checks, "SECONDS", 5)
    with _listening(Rewriting(fronted, change)), Deployment(fronted.environment) as deployment:
        outcome = _outcome(deployment, check)
    assert outcome.result == "differs", outcome
    assert found in outcome.found


def test_every_check_has_a_planted_difference() -> None:
    planted = {check for check, _, _ in PLANTS} | {check for check, _, _ in REWRITTEN}
    planted |= {check for _, check in (*test_verify.FRONT_PLANTS, *test_verify.QUEUE_PLANTS)}
    planted |= {check for check, *_, found in test_verify_azure.CASES if found}
    planted |= {"description" for _ in test_verify_description.PLANTS}
    assert planted == {check.name for check in CHECKS}
