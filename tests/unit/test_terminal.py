"""What terminals are shown of logs: text and colours."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.admin.terminal import Harmless

HOSTILE = (
    b"a\x1b[31mred\x1b[0m\tb\r\n\x1b[2J\x1b[1;1H\x1b]0;title\x07c\x1b]52;c;QQ==\x1b\\d"
    b"\x1bPx\x1b\\e\x1bcf\x07g\x9f\xc3\xa9\n"
) + "\x9b2J\x9bHh\x9d0;title\x07i\x9d0;title\x9cj\x85k\u202el世界".encode()
SHOWN = "a\x1b[31mred\x1b[0m\tb\r\ncdefg\ufffdé\nhijkl世界"


@given(st.lists(st.integers(0, len(HOSTILE)), max_size=6))
def test_it_does_not_matter_where_it_is_cut(places: list[int]) -> None:
    harmless, edges = Harmless(), [0, *sorted(places), len(HOSTILE)]
    pieces = [harmless.feed(HOSTILE[start:end]) for start, end in pairwise(edges)]
    assert "".join(pieces) == SHOWN


@pytest.mark.parametrize("text", [b"\x1b]0;" + b"x" * 5000, b"\x1b[", b"\xc2\x9d" + b"x" * 5000, b"\xc2\x9b"])
def test_what_never_ends_is_not_obeyed(text: bytes) -> None:
    assert not {"\x1b", "\x9b", "\x9d"} & set(Harmless().feed(text))
