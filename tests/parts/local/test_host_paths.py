"""Decoding and encoding of paths, locally and as deployed."""

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.local.host.paths import BadPath, decode_path, encode_path


@pytest.mark.parametrize(
    ("raw", "local", "azure"),
    [
        ("/a/b", "/a/b", "/a/b"),
        ("/a%20b/%C3%A9", "/a b/é", "/a b/é"),
        ("/a%2Fb%2fc", "/a%2Fb%2fc", "/a/b/c"),
        ("/a%252Fb", "/a%2Fb", "/a%2Fb"),
        ("/%C3%28%ff", "/%C3(%ff", "/%C3(%ff"),
        ("/%E2%82%2F%AC", "/%E2%82%2F%AC", "/%E2%82/%AC"),
        ("/100%/%zz", "/100%/%zz", "/100%/%zz"),
        ("/a/./b/../c", "/a/c", "/a/c"),
        ("/a/%2e%2E/b/.", "/b/", "/b/"),
        ("/../..", "/", "/"),
        ("/a/b/..", "/a/", "/a/"),
        ("/x%2F..%2Fy", "/x%2F..%2Fy", "/x/../y"),
        ("*", "*", "*"),
    ],
)
def test_a_path_is_decoded_but_for_slashes_unless_it_is_deployed(raw: str, local: str, azure: str) -> None:
    assert decode_path(raw, slashes=False) == local
    assert decode_path(raw, slashes=True) == azure


def test_a_nul_is_refused() -> None:
    with pytest.raises(BadPath):
        decode_path("/a%00b", slashes=False)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/a b", "/a%20b"),
        ("/é", "/%C3%A9"),
        ("/a%2Fb", "/a%2Fb"),
        ("/100%", "/100%25"),
        ("/!$&'()*+,-.:;=@_~", "/!$&'()*+,-.:;=@_~"),
        ('/"<>[]?#{}', "/%22%3C%3E%5B%5D%3F%23%7B%7D"),
    ],
)
def test_a_path_is_encoded_as_aspnet_does(path: str, url: str) -> None:
    assert encode_path(path) == url


segments = st.text(st.characters(codec="utf-8", exclude_characters="\0%/"), min_size=1, max_size=8).filter(
    lambda text: text not in {".", ".."}
)


@given(parts=st.lists(segments, min_size=1, max_size=4), safe=st.sampled_from(["", "!*'()~", ":@!$&'()*+,;=~"]))
def test_however_a_client_encodes_a_path_its_meaning_is_kept(parts: list[str], safe: str) -> None:
    raw = "/" + "%2F".join(quote(part, safe=safe) for part in parts)
    for slashes in (False, True):
        assert unquote(encode_path(decode_path(raw, slashes=slashes))) == "/" + "/".join(parts)
    assert decode_path(raw, slashes=True) == "/" + "/".join(parts)
