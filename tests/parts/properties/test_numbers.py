"""Numbers in any JSON text are written as JavaScript writes them (contract 1.4): compared with Node.js itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.base.jsontext import read, write
from tests.selection import examples

SCRIPT = """
require("node:readline").createInterface({input: process.stdin}).on("line", (text) => {
  console.log(JSON.stringify(JSON.parse(text)));
});
"""

NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True) | (
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)
).map(json.dumps)
WORDS = NUMBERS | st.sampled_from(["true", "null", '"1.0"', '"e\\""'])


def a_list(parts: list[str]) -> str:
    return "[" + ",".join(parts) + "]"


def an_object(parts: dict[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{part}' for name, part in parts.items()) + "}"


TEXTS = st.recursive(
    WORDS,
    lambda inner: (
        st.lists(inner, max_size=8).map(a_list)
        | st.dictionaries(st.sampled_from("abcde"), inner, max_size=5).map(an_object)
    ),
    max_leaves=30,
)


@pytest.fixture(scope="module")
def in_node() -> Iterator[Callable[[str], str]]:
    """Returns a function that reads and writes a JSON text of one line in Node.js."""
    with subprocess.Popen(["node", "-e", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        sent, answered = node.stdin, node.stdout

        def ask(text: str) -> str:
            sent.write(text + "\n")
            sent.flush()
            return answered.readline()

        yield ask


@settings(max_examples=examples(400), deadline=None)
@given(TEXTS)
def test_any_text_is_written_as_node_writes_it(in_node: Callable[[str], str], text: str) -> None:
    # Loading and dumping tells 1 from 1.0, but not 0.000001 from 1e-6, which are the same to every reader.
    assert json.dumps(json.loads(write(read(text.encode())))) == json.dumps(json.loads(in_node(text)))
