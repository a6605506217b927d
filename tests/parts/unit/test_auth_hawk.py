"""Header, bewit, MAC and payload hash (contract 11.1, 11.2, 11.6), with the vectors of the contract's appendix."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from shared.auth import hawk
from shared.base.errors import AuthenticationFailed

SITE = hawk.Site.of("https://tc.example.com")
BODY = b'{"workerGroup":"g","workerId":"i","tasks":1}'
HASH = "/EjceIDwh7kp42dFMqIYHTHDbZM2VivlHV+3+U9G1iY="
MAC = "Mug3oZntv8dNdgST1F5MDYnvTj9ZHz3Z18bGBAw2CvM="
HEADER = f'Hawk mac="{MAC}", id="tester", ts="1767225600", nonce="abcdef", hash="{HASH}", ext="e30="'
RESOURCE = "/api/queue/v1/claim-work/prov%2Fwt"
ARTIFACT = "/api/queue/v1/task/AAAAAAAAQACAAAAAAAAAAA/artifacts/private%2Fx"
BEWIT = "dGVzdGVyXDE3NjcyMjY1MDBcZ0YvOTJDaHhkOE1rRVZBNEprRE5uWVEzd21FNXFyRjZDYS8yQ3dVOVltMD1c"


def test_payload_hash_vectors() -> None:
    assert hawk.payload_hash("", b"") == b"B0weSUXsMcb5UhL41FZbrUJCAotzSI3HawE1NPLRUz8="
    assert hawk.payload_hash("application/json; charset=utf-8", BODY).decode() == HASH
    assert hawk.payload_hash(" Application/JSON ", BODY).decode() == HASH


def test_header_vector() -> None:
    signed = hawk.parse_header(HEADER)
    keys = ["other", "no-secret"]
    assert hawk.check_mac(signed, keys=keys, method="post", resources=["/other", RESOURCE], site=SITE) == 1
    hawk.check_payload(signed, content_type="application/json", body=BODY)


def test_bewit_vector() -> None:
    signed, unsigned = hawk.parse_bewit(f"{ARTIFACT}?bewit={BEWIT}")
    assert unsigned == ARTIFACT
    assert (signed.id, signed.ts, signed.ext) == ("tester", "1767226500", "")
    hawk.check_mac(signed, keys=["no-secret"], method="HEAD", resources=[unsigned], site=SITE)


def test_the_root_url_says_what_is_signed() -> None:
    assert hawk.Site.of("http://Localhost:8080/") == hawk.Site(host="localhost", port=8080)
    assert hawk.Site.of("http://localhost") == hawk.Site(host="localhost", port=80)
    assert hawk.Site.of("https://tc.example.com") == hawk.Site(host="tc.example.com", port=443)


@pytest.mark.parametrize(
    ("key", "method", "resource", "site"),
    [
        ("no-secreT", "POST", RESOURCE, SITE),
        ("no-secret", "PUT", RESOURCE, SITE),
        ("no-secret", "POST", "/api/queue/v1/claim-work/prov/wt", SITE),
        ("no-secret", "POST", RESOURCE + "?", SITE),
        ("no-secret", "POST", RESOURCE, hawk.Site.of("https://tc.example.org")),
        ("no-secret", "POST", RESOURCE, hawk.Site.of("http://tc.example.com")),
        ("no-secret", "POST", RESOURCE, hawk.Site.of("https://tc.example.com:8443")),
    ],
)
def test_the_mac_covers_the_request(key: str, method: str, resource: str, site: hawk.Site) -> None:
    with pytest.raises(AuthenticationFailed):
        hawk.check_mac(hawk.parse_header(HEADER), keys=[key], method=method, resources=[resource], site=site)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('ts="1767225600"', 'ts="1767225601"'),
        ('nonce="abcdef"', 'nonce="abcdeg"'),
        (f'hash="{HASH}"', 'hash="B0weSUXsMcb5UhL41FZbrUJCAotzSI3HawE1NPLRUz8="'),
        (f'hash="{HASH}", ', ""),
        ('ext="e30="', 'ext="e30"'),
        (', ext="e30="', ""),
        ("Hawk ", 'Hawk app="a", '),
        (MAC, MAC.lower()),
        (MAC, MAC.rstrip("=")),
    ],
)
def test_the_mac_covers_the_header(was: str, becomes: str) -> None:
    signed = hawk.parse_header(HEADER.replace(was, becomes))
    with pytest.raises(AuthenticationFailed):
        hawk.check_mac(signed, keys=["no-secret"], method="POST", resources=[RESOURCE], site=SITE)


@pytest.mark.parametrize(
    "header",
    [
        'hAWK  id="a" ,\tts="1", nonce="n", mac="m"',
        'Hawk id="a",ts="1",nonce="n",mac="m",dlg="d",app="p"',
        'Hawk mac="m", nonce="n", ts="1", id="a b(c)~!", ',
    ],
)
def test_accepted_headers(header: str) -> None:
    assert hawk.parse_header(header).mac == "m"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Hawk",
        "Hawk ",
        "Bearer abc",
        'Basic id="a", ts="1", nonce="n", mac="m"',
        'Hawkid="a", ts="1", nonce="n", mac="m"',
        'Hawk id="a", ts="1", nonce="n"',
        'Hawk id="a", ts="1", mac="m"',
        'Hawk id="a", nonce="n", mac="m"',
        'Hawk ts="1", nonce="n", mac="m"',
        'Hawk id="", ts="1", nonce="n", mac="m"',
        'Hawk id="a", id="a", ts="1", nonce="n", mac="m"',
        'Hawk id="a", ts="1", nonce="n", mac="m", foo="x"',
        'Hawk id="a", ts="1", nonce="n", mac="m", bewit="x"',
        'Hawk id="a" ts="1" nonce="n" mac="m"',
        'Hawk id="a",, ts="1", nonce="n", mac="m"',
        "Hawk id='a', ts='1', nonce='n', mac='m'",
        'Hawk id="a\\"", ts="1", nonce="n", mac="m"',
        'Hawk id="a\n", ts="1", nonce="n", mac="m"',
        'Hawk id="ä", ts="1", nonce="n", mac="m"',
        'Hawk id="a", ts="1.5", nonce="n", mac="m"',
        'Hawk id="a", ts="-1", nonce="n", mac="m"',
        'Hawk id="a", ts="NaN", nonce="n", mac="m"',
        'Hawk id="a", ts="٣", nonce="n", mac="m"',
        'Hawk id="a", ts="1111111111111111", nonce="n", mac="m"',
        'Hawk id="a", ts="1", nonce="n", mac="m", Bearer abc',
        'Hawk id="a", ts="1", nonce="n", mac="m", Hawk id="a"',
        'Hawk id="a", ts="1", nonce="n", mac="m", ext="' + "x" * 4096 + '"',
    ],
)
def test_refused_headers(header: str) -> None:
    with pytest.raises(AuthenticationFailed):
        hawk.parse_header(header)


def signed_at(ts: int, *, bewit: bool = False) -> hawk.Signed:
    return hawk.Signed(id="a", ts=str(ts), mac="m", nonce="n", bewit=bewit)


NOW = datetime.fromtimestamp(1767225600, UTC)


@pytest.mark.parametrize("offset", [-900, 0, 900])
def test_clocks_may_differ_by_15_minutes(offset: int) -> None:
    hawk.check_time(signed_at(1767225600 + offset), NOW)


def test_a_bewit_ends_without_skew() -> None:
    hawk.check_time(signed_at(1767225600, bewit=True), NOW - timedelta(milliseconds=1))
    with pytest.raises(AuthenticationFailed, match="expired"):
        hawk.check_time(signed_at(1767225600, bewit=True), NOW)


@pytest.mark.parametrize(
    ("target", "unsigned"),
    [
        (f"/a?bewit={BEWIT}", "/a"),
        (f"/a?bewit={BEWIT}&b=2", "/a?b=2"),
        (f"/a?x=1&bewit={BEWIT}", "/a?x=1"),
        (f"/a?x=1&bewit={BEWIT}&b=2", "/a?x=1&b=2"),
        (f"/a?bewit=x&bewit={BEWIT}", "/a?bewit=x"),
        (f"/a?bewit={BEWIT}&", "/a"),
    ],
)
def test_the_bewit_is_taken_out_of_the_query(target: str, unsigned: str) -> None:
    assert hawk.has_bewit(target)
    assert hawk.parse_bewit(target)[1] == unsigned


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "bewit",
    [
        "",
        "*",
        "a",
        encoded("a\\1\\m"),
        encoded("a\\1\\m\\e\\x"),
        encoded("\\1\\m\\"),
        encoded("a\\\\m\\"),
        encoded("a\\1\\\\"),
        encoded("a\\soon\\m\\"),
        encoded("ä\\1\\m\\"),
        encoded("a\n\\1\\m\\"),
        encoded("a\\1\\m\\" + "x" * 4096),
    ],
)
def test_refused_bewits(bewit: str) -> None:
    with pytest.raises(AuthenticationFailed):
        hawk.parse_bewit(f"/a?bewit={bewit}")


@pytest.mark.parametrize(
    "ext", ["x", "e30=e", "!!!!", encoded("[]"), encoded("1"), encoded("null"), encoded("{"), encoded("[" * 2900), "_w"]
)
def test_refused_exts(ext: str) -> None:
    with pytest.raises(AuthenticationFailed):
        hawk.parse_ext(ext)
