"""Bodies, URL parameters and query options (contract 1.4, 1.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.endpoint import Endpoint
from shared.api.validation import (
    MAX_BODY,
    MOST_CHECKED,
    check_size,
    is_json,
    measure_body,
    parse_body,
    validate_params,
    validate_payload,
    validate_query,
)
from shared.app.apis import QUEUE
from shared.base.errors import (
    ApiError,
    InputError,
    InputTooLarge,
    InputValidationError,
    InvalidRequestArguments,
    MalformedPayload,
)
from shared.base.jsontext import MAX_DIGITS, MAX_NESTING, MAX_VALUES
from shared.queue.claims.endpoints import ClaimWorkRequest
from shared.queue.tasks.models import CreateTaskRequest

BY_NAME = {endpoint.name: endpoint for endpoint in QUEUE.endpoints}
JSON = "application/json"
NOW = "2026-01-01T00:00:00.000Z"
METADATA = {"name": "n", "description": "d", "owner": "o", "source": "https://example.com/"}


def parsed(body: bytes) -> Any:
    return parse_body(body, measure_body(body))


@pytest.mark.parametrize("content_type", [JSON, "application/json; charset=utf-8", "Application/JSON ;x=y"])
def test_content_type_of_json_with_parameters_is_json(content_type: str) -> None:
    assert is_json(content_type)


def test_largest_body_is_parsed_and_a_larger_one_refused() -> None:
    filler = b'{"a": "' + b"x" * (MAX_BODY - 9) + b'"}'
    check_size(len(filler))
    assert len(parsed(filler)["a"]) == MAX_BODY - 9
    with pytest.raises(InputTooLarge):
        check_size(len(filler) + 1)


@pytest.mark.parametrize(
    "body", [b"{", b"1", b'"a"', b"null", b"{'a': 1}", b'{"a": Infinity}', b"\xff", b'"\\ud800"', b'{"a": "\\ud800"}']
)
def test_what_is_no_json_object(body: bytes) -> None:
    with pytest.raises(MalformedPayload):
        parsed(body)


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1), f"{MAX_NESTING} levels"),
        (b"[" * 100_000, f"{MAX_NESTING} levels"),
        (b"[" + b"1," * MAX_VALUES + b"1]", f"{MAX_VALUES} values"),
        (b"[" + b"1" * (MAX_DIGITS + 1), f"{MAX_DIGITS} digits"),
    ],
    ids=["nested", "unclosed", "many", "digits"],
)
def test_body_beyond_a_limit_is_an_input_error_that_names_the_limit(body: bytes, limit: str) -> None:
    with pytest.raises(InputError, match=limit):
        parsed(body)


@given(st.binary(max_size=60))
def test_any_body_is_an_object_or_a_refusal(body: bytes) -> None:
    try:
        payload = parsed(body)
    except MalformedPayload:
        return
    assert isinstance(payload, dict | list)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "taskId",
            ["AAAAAAAAQACAAAAAAAAAAA", "--------RACAAAAAAAAAAQ"],
            ["", "A" * 22, "AAAAAAAAQACAAAAAAAAAAA\n", "x"],
        ),
        ("runId", ["0", "00", "12", "1000"], ["", "-1", "1x", "١", "0\n", " 0"]),
        ("taskQueueId", ["a/b", "A-_9/b-9"], ["a", "a/B", "a/b-", "a/9", "a//b", "a/b\n", "/b", "a" * 39 + "/b"]),
        ("workerGroup", ["a", "A_-9" * 9], ["", "a.b", "a" * 39, "é"]),
        ("name", ["a", "public/x y", "~"], ["", "é", "a\n", "\x7f"]),
    ],
)
def test_url_parameters(name: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        validate_params(BY_NAME["ping"], {name: value})
    for value in bad:
        with pytest.raises(InvalidRequestArguments, match=name):
            validate_params(BY_NAME["ping"], {name: value})


def test_all_bad_parameters_are_reported() -> None:
    with pytest.raises(InvalidRequestArguments) as refused:
        validate_params(BY_NAME["reclaimTask"], {"taskId": "x", "runId": "y"})
    assert "taskId" in refused.value.message
    assert "runId" in refused.value.message


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("bewit=x", {}),
        ("limit=10&continuationToken=a%2Fb&bewit=1&bewit=2", {"limit": "10", "continuationToken": "a/b"}),
        ("limit=0", {"limit": "0"}),
    ],
)
def test_query_options(query: str, options: dict[str, str]) -> None:
    assert validate_query(BY_NAME["listTaskGroup"], query) == options


@pytest.mark.parametrize(
    "query", ["more=1", "limit=1&limit=1", "limit=", "limit=-1", "limit=1%0A", "continuationToken="]
)
def test_query_options_that_are_refused(query: str) -> None:
    with pytest.raises(InvalidRequestArguments):
        validate_query(BY_NAME["listTaskGroup"], query)
    with pytest.raises(InvalidRequestArguments):
        validate_query(BY_NAME["task"], query)


def test_a_body_where_one_is_needed() -> None:
    with pytest.raises(MalformedPayload):
        validate_payload(BY_NAME["claimWork"], None, "")
    assert validate_payload(BY_NAME["cancelTask"], {"any": "thing"}, JSON) is None
    body = validate_payload(BY_NAME["claimWork"], {"workerGroup": "g", "workerId": "w"}, JSON)
    assert isinstance(body, ClaimWorkRequest)
    assert body.tasks == 1


def test_all_schema_errors_in_one_message() -> None:
    wrong = {"retries": "1", "foo": 1, "scopes": ["é", "a", 5], "metadata": {"name": None}}
    with pytest.raises(InputValidationError) as refused:
        validate_payload(BY_NAME["createTask"], wrong, JSON)
    for place in (
        "data.retries", "data.foo", "data.scopes[0]", "data.scopes[2]", "data.metadata.name", "data.metadata.owner",
        "data.created", "data.payload",
    ):  # fmt: skip
        assert f"* {place} " in refused.value.message
    assert "create-task-request.json#" in refused.value.message


def test_a_flood_of_errors_is_cut_short() -> None:
    with pytest.raises(InputValidationError) as refused:
        validate_payload(BY_NAME["createTask"], {"scopes": [1] * 10_000}, JSON)
    assert len(refused.value.message) < 10_000
    assert "more" in refused.value.message


@pytest.mark.parametrize(
    "payload",
    [
        {"scopes": ["a"] * MOST_CHECKED},
        {"tags": {str(number): "x" for number in range(MOST_CHECKED)}},
        {str(number): 1 for number in range(MOST_CHECKED + 1)},
        {"metadata": [[[1] * MOST_CHECKED]]},
        [{}] * (MOST_CHECKED + 1),
    ],
    ids=["scopes", "tags", "unknown", "nested", "array"],
)
def test_more_values_than_can_be_checked_are_refused_before_they_are(payload: Any) -> None:
    with pytest.raises(InputError, match=str(MOST_CHECKED)):
        validate_payload(BY_NAME["createTask"], payload, JSON)


def test_values_of_free_form_objects_are_passed_on_without_being_looked_into() -> None:
    large = {"list": [0] * MAX_VALUES, "inner": {"x": [{}]}}
    wanted = {"payload": large, "extra": large, "metadata": METADATA, "created": NOW, "deadline": NOW}
    body = validate_payload(BY_NAME["createTask"], wanted, JSON)
    assert isinstance(body, CreateTaskRequest)
    assert body.payload is large
    assert body.extra is large


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
WITH_INPUT = [endpoint for endpoint in QUEUE.endpoints if endpoint.input is not None]


@given(st.sampled_from(WITH_INPUT), st.data())
def test_any_payload_is_a_model_or_a_refusal(endpoint: Endpoint, data: st.DataObject) -> None:
    assert endpoint.input is not None
    names = sorted(getattr(endpoint.input, "model_fields", {}))
    known = st.sampled_from(names) if names else st.text(max_size=8)
    payload: Any = data.draw(
        st.dictionaries(known | st.text(max_size=8), JSON_VALUES, max_size=6) | st.lists(JSON_VALUES)
    )
    try:
        body = validate_payload(endpoint, payload, JSON)
    except ApiError as refused:
        assert refused.status == 400
    else:
        assert body is not None
        json.dumps(body.model_dump(mode="json"))
