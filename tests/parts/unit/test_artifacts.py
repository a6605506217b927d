"""The rules about artifacts that need no storage (contract 7), and the names of their rows."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.errors import InputError, RequestConflict
from shared.base.types import UploadMode
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import decode, encode
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.tasks.rules import Created, Run, State, Task
from shared.store import keys, limits
from shared.store.interface import Row

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
MINUTE = timedelta(minutes=1)

names = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=1024)


def an_artifact(**changes: Any) -> Artifact:
    fields: dict[str, Any] = {
        "name": "public/log",
        "storage_type": StorageType.S3,
        "content_type": "text/plain",
        "expires": LATER,
    }
    return Artifact(**{**fields, **changes})


def a_run(state: State, resolved: datetime | None = None, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "state": state,
        "reason_created": Created.SCHEDULED,
        "scheduled": NOW - timedelta(hours=1),
        "generation": 0,
        "worker_group": "g",
        "worker_id": "w",
        "resolved": resolved,
    }
    return Run(**{**fields, **changes})


def a_task(*runs: Run) -> Task:
    return Task(
        task_id="AAAAAAAAQACAAAAAAAAAAA",
        task_queue_id="p/w",
        scheduler_id="-",
        project_id="none",
        task_group_id="AAAAAAAAQACAAAAAAAAAAA",
        priority="lowest",
        retries=5,
        retries_left=5,
        deadline=LATER,
        expires=LATER,
        dependencies=0,
        runs=runs,
    )


def test_sizes_have_limits() -> None:
    rules.check_stored(an_artifact(name="x" * 1024, details={"url": "x" * 15_000}))
    with pytest.raises(InputError):
        rules.check_stored(an_artifact(name="x" * 1025))
    with pytest.raises(InputError):
        rules.check_stored(an_artifact(details={"url": "x" * 15_001}))


def test_the_run_must_be_known_and_claimed() -> None:
    unclaimed = a_run(State.PENDING, worker_group=None, worker_id=None)
    for task, run_id in ((None, 0), (a_task(), 0), (a_task(a_run(State.RUNNING)), 1), (a_task(unclaimed), 0)):
        with pytest.raises(InputError):
            rules.claimed_run(task, run_id)
    assert rules.claimed_run(a_task(a_run(State.RUNNING)), 0).state is State.RUNNING


REFERENCE = an_artifact(storage_type=StorageType.REFERENCE, details={"url": "https://example.com/1"})
LINK = an_artifact(storage_type=StorageType.LINK, details={"artifact": "other"})
ERROR = an_artifact(storage_type=StorageType.ERROR, details={"reason": "file-missing-on-worker", "message": "m"})


@pytest.mark.parametrize(
    ("stored", "wanted", "is_accepted"),
    [
        (an_artifact(), an_artifact(), True),
        (an_artifact(), an_artifact(expires=LATER + MINUTE), True),
        (an_artifact(), an_artifact(expires=LATER - MINUTE), False),
        (an_artifact(), an_artifact(content_type="text/html"), False),
        (an_artifact(), replace(REFERENCE), False),
        (REFERENCE, an_artifact(), False),
        (REFERENCE, replace(REFERENCE, details={"url": "https://example.com/2"}), True),
        (REFERENCE, LINK, True),
        (REFERENCE, replace(LINK, content_type="application/binary"), True),
        (LINK, REFERENCE, False),
        (LINK, replace(LINK, content_type="application/binary"), True),
        (LINK, replace(LINK, details={"artifact": "another"}), False),
        (ERROR, ERROR, True),
        (ERROR, replace(ERROR, details={**ERROR.details, "message": "another"}), False),
    ],
)
def test_which_repeats_are_accepted(stored: Artifact, wanted: Artifact, is_accepted: bool) -> None:
    if not is_accepted:
        with pytest.raises(RequestConflict):
            rules.repeated(stored, wanted)
        return
    after = rules.repeated(stored, wanted)
    assert (after.storage_type, after.details, after.expires) == (wanted.storage_type, wanted.details, wanted.expires)
    assert after.content_type == stored.content_type


def test_a_repeat_leaves_the_stated_length_and_forgets_what_was_seen() -> None:
    seen = an_artifact(upload=Upload.RELAY, content_length=10, is_present=True, is_settled=True, length=10)
    after = rules.repeated(seen, an_artifact(upload=Upload.DIRECT, content_length=20))
    assert (after.upload, after.content_length, after.length) == (Upload.DIRECT, 10, None)
    assert not after.is_present
    assert not after.is_settled


@pytest.mark.parametrize(
    ("mode", "length", "upload"),
    [
        ("auto", None, Upload.RELAY),
        ("auto", 0, Upload.RELAY),
        ("auto", 1_000_000, Upload.RELAY),
        ("auto", 1 << 20, Upload.DIRECT),
        ("direct", None, Upload.RELAY),
        ("direct", 0, Upload.DIRECT),
        ("relay", 5, Upload.RELAY),
        ("relay", 1 << 30, Upload.RELAY),
    ],
)
def test_how_content_comes(mode: UploadMode, length: int | None, upload: Upload) -> None:
    assert rules.upload_of(mode, length, 1 << 20) is upload


@pytest.mark.parametrize("level", [0, 1, 9])
@given(limit=st.integers(1024, 1 << 18), seed=st.integers(0, 9))
def test_the_relay_takes_whatever_an_encoder_makes_of_what_is_sent_to_it(level: int, limit: int, seed: int) -> None:
    """The relay takes whatever an encoder makes of content that `auto` sends to it: content that cannot be compressed
    grows, and names may be as long as a file system allows."""
    length = limit
    while length >= 0 and rules.upload_of("auto", length, limit) is Upload.DIRECT:
        length -= 1
    encoder = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS, memLevel=4)
    encoded = encoder.compress(Random(seed).randbytes(max(length, 0))) + encoder.flush()
    assert len(encoded) + 256 <= limit


def test_what_no_block_can_hold() -> None:
    rules.upload_of("auto", rules.MAX_BLOCK, 1 << 20)
    with pytest.raises(InputError):
        rules.upload_of("auto", rules.MAX_BLOCK + 1, 1 << 20)


@given(content=st.binary(), other=st.integers(0, 1 << 40))
def test_gzip_says_what_it_was_made_of(content: bytes, other: int) -> None:
    packed = gzip.compress(content)
    trailer = packed[-rules.GZIP_TRAILER :]
    assert rules.begins_as_gzip(packed[: rules.GZIP_HEAD], len(packed))
    assert not rules.begins_as_gzip(packed[:-9], len(packed) - 9)
    assert not rules.begins_as_gzip(b"", len(packed)), "it is gone"
    assert not rules.begins_as_gzip(b"!" + packed[1 : rules.GZIP_HEAD], len(packed))
    assert rules.is_made_of(len(content), trailer)
    assert rules.is_made_of(len(content) + (1 << 32), trailer), "it has 32 bits for that"
    assert rules.is_made_of(other, trailer) is ((other - len(content)) % (1 << 32) == 0)
    assert not rules.is_made_of(len(content), trailer[:-1] + b"\xff")


@pytest.mark.parametrize(
    ("encoding", "trailer", "length"),
    [
        ("", b"\x03\x00\x00\x00", 30),
        ("identity", b"\x03\x00\x00\x00", 30),
        ("gzip", b"\x03\x00\x00\x00", 3),
        ("gzip", b"\x00\x00\x00\x00", 0),
        ("gzip", b"\x03", None),
        ("gzip", b"", None),
        ("br", b"\x03\x00\x00\x00", None),
    ],
)
def test_the_length_of_the_content_not_of_its_encoding(encoding: str, trailer: bytes, length: int | None) -> None:
    assert rules.seen_length(30, encoding, trailer) == length


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("", "-"),
        ("a\r\nb: c", "-"),
        ("ä", "-"),
        ("\x7f", "-"),
    ],
)
def test_what_can_stand_in_a_header(text: str, shown: str) -> None:
    assert rules.as_header(text, "-") == shown


@given(names)
def test_every_name_can_be_saved_under(name: str) -> None:
    shown = rules.disposition(name)
    assert rules.as_header(shown, "") == shown
    quoted = shown.removeprefix('inline; filename="').removesuffix('"')
    assert '"' not in quoted.replace("\\\\", "").replace('\\"', "")


@given(names, st.integers(0, rules.MAX_RUN))
def test_every_name_has_a_legal_key_in_its_range(name: str, run_id: int) -> None:
    key = keys.artifact(run_id, name)
    limits.check_key(key)
    limits.check_key(keys.direct(run_id, name))
    first, end = keys.artifacts(run_id)
    assert first <= key < end
    first, end = keys.EDGES_AND_UPLOADS
    assert not first <= key < end
    assert first <= keys.direct(run_id, name) < end
    assert keys.direct(run_id, name).startswith(keys.IS_UPLOAD)


def test_ranges_of_a_task_are_apart() -> None:
    guard = keys.upload(0)
    edge = keys.dependent("AAAAAAAAQACAAAAAAAAAAA")
    first, end = keys.EDGES_AND_UPLOADS
    assert first <= edge < keys.direct(0, "a") < end
    for key in (guard, keys.TASK_STATUS, keys.artifact(0, "a")):
        assert not first <= key < end


@given(
    st.builds(
        Artifact,
        name=names,
        storage_type=st.sampled_from(StorageType),
        content_type=st.text(max_size=255).filter(lambda text: text.isprintable()),
        expires=st.just(LATER),
        details=st.dictionaries(st.sampled_from(["url", "message"]), st.text(max_size=50)),
        upload=st.sampled_from(Upload),
        content_length=st.none() | st.integers(0, 2**40),
        is_present=st.booleans(),
        is_settled=st.booleans(),
        encoding=st.sampled_from(["", "gzip"]),
        length=st.none() | st.integers(0, 2**40),
    )
)
def test_a_row_comes_back_as_it_went(artifact: Artifact) -> None:
    values = encode(artifact)
    limits.check_values("AAAAAAAAQACAAAAAAAAAAA", keys.artifact(0, artifact.name), values)
    assert decode(Row(partition="p", key="k", values=values, etag="e", timestamp=NOW)) == artifact


@pytest.mark.parametrize(("length", "minutes"), [(0, 20), (1 << 20, 20), (600 << 20, 30), (4000 << 20, 45), (None, 45)])
def test_upload_url_lives_no_longer_than_an_upload_needs(length: int | None, minutes: int) -> None:
    assert rules.upload_life(length) // MINUTE == minutes
