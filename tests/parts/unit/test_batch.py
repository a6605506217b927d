"""Answers to entity-group transactions that are whole, refused, or cut off anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store import table_requests as batch
from shared.store.interface import Create, Delete, StorageUnavailable
from shared.store.wire import Refused

OPERATIONS = (Create("a", {}), Delete("b"), Create("c", {}))
_PART = "--changeset_x\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 {}\r\n"
WHOLE = "".join(
    (
        "--batch_x\r\nContent-Type: multipart/mixed; boundary=changeset_x\r\n\r\n",
        _PART.format("204 No Content"),
        "ETag: W/\"datetime'1'\"\r\n\r\n\r\n",
        _PART.format("204 No Content"),
        "\r\n\r\n",
        _PART.format("204 No Content"),
        "ETag: W/\"datetime'3'\"\r\n\r\n\r\n--changeset_x--\r\n--batch_x--\r\n",
    )
).encode()
REFUSED = (
    _PART.format("412 Precondition Failed")
    + '\r\n{"odata.error":{"code":"UpdateConditionNotSatisfied","message":{"lang":"en-US","value":"1:no"}}}\r\n'
).encode()


def test_a_whole_answer_has_every_etag() -> None:
    assert batch.decode(WHOLE, OPERATIONS) == ["W/\"datetime'1'\"", "", "W/\"datetime'3'\""]


def test_a_refusal_names_operation_status_and_code() -> None:
    with pytest.raises(Refused) as refused:
        batch.decode(REFUSED, OPERATIONS)
    found = refused.value
    assert (found.index, found.status, found.code) == (1, 412, "UpdateConditionNotSatisfied")


def test_a_refusal_for_size_needs_no_body() -> None:
    with pytest.raises(Refused) as refused:
        batch.decode(_PART.format("413 Too Large").encode(), OPERATIONS)
    assert refused.value.status == 413


@given(at=st.integers(0, WHOLE.index(b"datetime'3'")))
def test_an_answer_that_is_cut_off_leaves_the_outcome_unknown(at: int) -> None:
    with pytest.raises(StorageUnavailable):
        batch.decode(WHOLE[:at], OPERATIONS)


@given(at=st.integers(REFUSED.index(b"412"), len(REFUSED) - 4))
def test_a_refusal_that_is_cut_off_names_no_operation(at: int) -> None:
    """A refusal that is cut off names no operation: a wrong index would be taken for the refusal of another row."""
    with pytest.raises(StorageUnavailable):
        batch.decode(REFUSED[:at], OPERATIONS)
