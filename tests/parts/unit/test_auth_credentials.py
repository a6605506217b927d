"""Temporary credentials (contract 11.3, 5.3), with the vectors of the contract's appendix."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.auth import certificates as credentials
from shared.base.errors import AuthenticationFailed

START = datetime.fromtimestamp(1767225600, UTC)
EXPIRY = datetime.fromtimestamp(1767226800, UTC)
ISSUER_TOKEN = "0123456789abcdefghijABCDEFGHIJ"
SEED = "AAAAAAAAQACAAAAAAAAAAABBBBBBBBRBCBBBBBBBBBBQ"
TASK = "AAAAAAAAQACAAAAAAAAAAA"
NAME = f"task-client/{TASK}/0/on/g/i/until/1767226800"


def issue(**changes: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {
        "client_id": NAME,
        "scopes": credentials.task_scopes(task_id=TASK, run_id=0, scopes=["secrets:get:x*"]),
        "start": START,
        "expiry": EXPIRY,
        "issuer": "queue-service",
        "issuer_token": ISSUER_TOKEN,
        "seed": SEED,
    }
    return credentials.temporary_credentials(**{**arguments, **changes})


def test_named_vector() -> None:
    issued = issue()
    certificate = json.loads(issued["certificate"])
    assert issued["clientId"] == NAME
    assert issued["accessToken"] == "2sX2wZ1XZZyttHrTlDgEHvSZ_S90GK4Fl3_AKD30nTk"
    assert certificate["signature"] == "t5yxp68cI8bNcdMc4uJpPb+oYuZsKAxTD1QApghiun4="
    assert certificate["issuer"] == "queue-service"
    assert certificate["scopes"] == [
        f"queue:reclaim-task:{TASK}/0",
        f"queue:resolve-task:{TASK}/0",
        f"queue:create-artifact:{TASK}/0",
        "secrets:get:x*",
    ]


def test_unnamed_vector() -> None:
    issued = issue(client_id=None, scopes=["a", "b"])
    certificate = json.loads(issued["certificate"])
    assert issued["clientId"] == "queue-service"
    assert issued["accessToken"] == "2sX2wZ1XZZyttHrTlDgEHvSZ_S90GK4Fl3_AKD30nTk"
    assert certificate["signature"] == "VTe4zkiLa/SMUCXVD8lcawBQ7HpKbBDiNg0G6rt0TDI="
    assert not {"issuer", "clientId"} & certificate.keys()


@pytest.mark.parametrize(
    "changes",
    [
        {"expiry": START + timedelta(days=31, milliseconds=1)},
        {"expiry": START - timedelta(milliseconds=1)},
        {"seed": SEED[1:]},
        {"client_id": "queue-service"},
        {"scopes": ["line\nbreak"]},
    ],
)
def test_credentials_that_would_be_refused_are_not_issued(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        issue(**changes)


def certificate(**changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = {**json.loads(issue()["certificate"]), **changes}
    return {name: field for name, field in value.items() if field is not ...}


def verify(value: object, client_id: str = NAME, now: datetime = START) -> None:
    parsed = credentials.parse_certificate(value)
    credentials.check_window(parsed, now)
    credentials.check_signature(parsed, client_id, ISSUER_TOKEN)


@pytest.mark.parametrize("now", [START - timedelta(minutes=4), EXPIRY + timedelta(minutes=4)])
def test_a_good_certificate_is_accepted_with_skew(now: datetime) -> None:
    verify(certificate(), now=now)


@pytest.mark.parametrize("now", [START - timedelta(minutes=6), EXPIRY + timedelta(minutes=6)])
def test_a_certificate_holds_for_its_time_only(now: datetime) -> None:
    with pytest.raises(AuthenticationFailed):
        verify(certificate(), now=now)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": True},
        {"version": ...},
        {"issuer": "queue"},
        {"issuer": None},
        {"issuer": ...},
        {"issuer": ..., "clientId": NAME},
        {"seed": SEED[::-1]},
        {"seed": SEED[1:]},
        {"seed": "\ud800" * 44},
        {"seed": 44},
        {"start": START.timestamp() * 1000 + 1},
        {"start": "1767225600000"},
        {"start": True},
        {"start": ...},
        {"start": -1},
        {"expiry": EXPIRY.timestamp() * 1000 + 1},
        {"expiry": 1e300},
        {"expiry": float("nan")},
        {"expiry": 10**400},
        {"expiry": (START + timedelta(days=31)).timestamp() * 1000 + 1},
        {"scopes": ["*"]},
        {"scopes": "*"},
        {"scopes": [1]},
        {"scopes": ["\n"]},
        {"scopes": ...},
        {"signature": "t5yxp68cI8bNcdMc4uJpPb+oYuZsKAxTD1QApghiun5="},
        {"signature": ""},
        {"signature": "\ud800"},
        {"signature": None},
    ],
)
def test_each_field_of_a_certificate_counts(changes: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        verify(certificate(**changes))


def test_a_name_is_part_of_what_was_signed() -> None:
    with pytest.raises(AuthenticationFailed):
        verify(certificate(), client_id=NAME + "0")
