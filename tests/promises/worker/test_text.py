"""What the worker says of others' text: without secrets, bounded, and in linear time."""

from __future__ import annotations

import io
import logging
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.log import said
from worker.text import LONGEST, MOST, Formatter, lines, plain, shown

EXAMPLES = [
    ("503, url='https://a.b/c?sv=1&name=utf-8''x&sig=SECRET%3D'", "503, url='https://a.b/c?…"),
    ("https://a.b/c?SECRET and /d?sig=SECRET, <http://x/?bewit=SECRET>", "https://a.b/c?… and /d?… <http://x/?…>"),
    ("https://me:SECRET@a.b/c", "https://a.b/c"),
    ("https://me@x:SECRET@a.b", "https://a.b"),
    ("is it there? yes=1", "is it there? yes=1"),
    ("a\nERROR forged\x1b[2J\u2028", "a\\nERROR forged\\x1b[2J\\u2028"),
]


@pytest.mark.parametrize(("text", "wanted"), EXAMPLES)
def test_what_is_said(text: str, wanted: str) -> None:
    assert plain(text) == wanted
    assert shown(ValueError(text)) == wanted


def test_an_error_without_words_is_shown_by_its_name() -> None:
    assert shown(TimeoutError()) == "TimeoutError"


PIECES = ["?", "://", "=", "@", "/", "'", " ", "\n", "\0", "é", "x", "a://b@", "?a=", "\ud800", "https://"]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=8), st.integers(1, 30_000))
@example(["?"], 200_000)
@example(["://"], 70_000)
@example(["a://b@", "?"], 50_000)
def test_it_takes_linear_time_and_has_a_bounded_length(pieces: list[str], count: int) -> None:
    """The time is that of this thread's processor, so a busy machine makes no difference. Quadratic time would be
    minutes."""
    text = "".join(pieces) * count
    begun = time.thread_time()
    found, log = lines(text), said(text)
    assert time.thread_time() - begun < 2
    assert all(len(line) <= LONGEST and line.isprintable() for line in found)
    assert sum(map(len, found)) <= 10 * (MOST + 1), "what is not printed has ten characters at most"
    assert log.count(b"\n") == len(found)


@given(st.text("ab/:?@ '\n", max_size=3000), st.integers(0, 3000))
def test_no_password_and_no_signature_is_said_wherever_the_text_is_cut(before: str, length: int) -> None:
    secret = "\u0416" * (length + 1)  # in no other part
    for text in (f"{before} https://me:{secret}@host/x", f"{before} https://host/x?a='b'&sig={secret}"):
        assert "\u0416" not in plain(text)
        assert "\u0416" not in "".join(lines(text))


def test_the_workers_log_has_no_signature_and_no_line_of_a_tasks_making() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(Formatter("%(levelname)s %(message)s"))
    log = logging.Logger("of this test")
    log.addHandler(handler)
    try:
        raise ValueError("https://a.b/?sig=SECRET\nERROR forged")
    except ValueError:
        log.exception("file %s", "a\nERROR forged\x1b[2J")
    log.info("%s", "https://a.b/?sig=SECRET")
    found = written.getvalue().splitlines()
    assert found[0] == "ERROR file a\\nERROR forged\\x1b[2J"
    assert all(line.startswith("  ") for line in found[1:-1])
    assert "SECRET" not in written.getvalue()
