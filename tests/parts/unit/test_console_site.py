"""The console's files as they are served: which addresses are pages, what may be kept, and what a page may load."""

import base64
import gzip
import hashlib
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from functions.console import FOLDER, ConsoleSite, sources
from shared.api.scopes import ScopeSet, satisfies
from shared.base.settings import Settings
from tools.admin.public_scopes import PUBLIC_SCOPES

CONSOLE_DOCS = FOLDER.parent / "docs" / "console.md"
PACKED = {"accept-encoding": "gzip, br"}


@pytest.fixture(scope="module")
def site() -> ConsoleSite:
    return ConsoleSite.load(FOLDER, ["https://account.blob.core.windows.net"], "https://login.example.com")


PAGES = """
/ /tasks /tasks/groups/fN1SbArXTPSVFNUvaOlinQ /tasks/index/my-team.v2.latest /operations /auth/clients/create
/tasks/fN1SbArXTPSVFNUvaOlinQ/runs/0/logs/public%2Flogs%2Flive.log /provisioners/my-team/worker-types/linux
/worker-manager/my-team%2Flinux /login/callback
"""
NO_PAGES = """
/favicon.ico /tasksx /tasks/groups/no-id /auth/nothing /operations/x /api /console/ /console/../host.json /index.html
"""


@pytest.mark.parametrize("path", PAGES.split())
def test_addresses_that_people_link_to_are_the_page(site: ConsoleSite, path: str) -> None:
    answer = site.answer(path, {})
    assert answer is not None
    assert answer.content_type.startswith("text/html")
    assert b'<div id="app">' in answer.body


@pytest.mark.parametrize("path", NO_PAGES.split())
def test_other_paths_are_not_of_the_console(site: ConsoleSite, path: str) -> None:
    assert site.answer(path, {}) is None


def test_whoever_opens_an_unknown_address_gets_the_page_and_programs_do_not(site: ConsoleSite) -> None:
    page = site.unknown("/no/such/page", {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page is not None
    assert (page.status, page.body) == (404, site.page.content)
    assert site.unknown("/no/such/page", {"accept": "*/*"}) is None
    for path in ("/api/queue/v1/nothing", "/console/old/app.js"):
        assert site.unknown(path, {"accept": "text/html"}) is None


def test_the_documented_roles_of_people_show_them_what_they_may_do() -> None:
    """The documented roles of people include the scope to see their own scopes, for the console's page."""
    document = CONSOLE_DOCS.read_text()
    commands = re.findall(r"^ +(.*)\|\s*taskcluster api auth createRole login:", document, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        scopes = re.findall(r"[a-z]+:[a-z*]+", command)
        scopes += PUBLIC_SCOPES if "public-scopes" in command else ()
        assert satisfies(ScopeSet(scopes), {"AllOf": ["auth:current-scopes", "queue:health", "queue:status:a"]}), (
            command
        )


def test_the_page_is_never_kept_and_assets_always(site: ConsoleSite) -> None:
    page = site.answer("/", {})
    assert page is not None
    assert "cache-control" not in page.headers  # every answer's own, which forbids keeping it
    script = re.search(r'src="([^"]+app\.js)"', page.body.decode())
    assert script is not None
    asset = site.answer(script[1], {})
    assert asset is not None
    assert "immutable" in asset.headers["cache-control"]


def test_compressed_for_those_that_accept_it(site: ConsoleSite) -> None:
    plain, packed = site.answer("/", {}), site.answer("/", PACKED)
    assert plain is not None
    assert packed is not None
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


def _bytes(site: ConsoleSite, path: str) -> tuple[set[str], int]:
    """Returns what a page names, for browsers to request all at once, and how many bytes the page takes with that."""
    page = site.answer(path, PACKED)
    assert page is not None
    html = gzip.decompress(page.body).decode()
    assert [path for path in re.findall(r'"(/console/[^"]+)"', html) if site.answer(path, {}) is None] == []
    named = set(re.findall(r'(?:href|src)="(/console/[^"]+)"', html))
    answers = [site.answer(name, PACKED) for name in named]
    return named, len(page.body) + sum(len(answer.body) for answer in answers if answer is not None)


@pytest.mark.parametrize(
    ("path", "most", "needs"),
    [
        ("/", 80_000, ["/vendor/preact.js", "/core/api.js", "/pages/home.js", "/parts/table.js"]),
        ("/tasks/fN1SbArXTPSVFNUvaOlinQ", 100_000, ["/pages/task.js", "/vendor/ansi-sequence-parser.js"]),
    ],
)
def test_a_page_names_what_it_loads_and_takes_few_bytes(
    path: str, most: int, needs: list[str], site: ConsoleSite
) -> None:
    named, size = _bytes(site, path)
    assert [need for need in needs if not any(name.endswith(need) for name in named)] == []
    assert not any(name.endswith("/vendor/markdown-it.js") for name in named), "loaded once it is needed"
    assert size < most


def test_comments_are_not_served_and_lines_keep_their_numbers(site: ConsoleSite) -> None:
    for name, file in site.assets.items():
        source = (FOLDER / name.split("/", 3)[3]).read_bytes()
        assert file.content.count(b"\n") == source.count(b"\n")
        if not name.endswith(".js") or "/vendor/" in name:
            assert file.content == source
        else:
            assert b"\n// " not in file.content
            assert b"\n/**" not in file.content


def test_a_page_loads_scripts_and_styles_of_its_own_origin_alone(site: ConsoleSite) -> None:
    page = site.answer("/", {})
    assert page is not None
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    import_map = re.search(r'<script type="importmap">(.*?)</script>', page.body.decode(), re.DOTALL)
    assert import_map is not None
    digest = base64.b64encode(hashlib.sha256(import_map[1].encode()).digest()).decode()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self' https://account.blob.core.windows.net"
    assert policy["frame-src"] == "'self' https://login.example.com"
    assert policy["frame-ancestors"] == "'none'"
    framed = site.answer("/login/callback", {})
    assert framed is not None
    assert framed.headers["content-security-policy"].endswith("frame-ancestors 'self'"), (
        "by a page of this origin alone"
    )


def test_a_change_of_any_file_changes_the_path_of_all(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<script type="importmap">{}</script>{{assets}}')
    (tmp_path / "app.js").write_text("1")
    before = ConsoleSite.load(tmp_path, [])
    (tmp_path / "app.js").write_text("2")
    assert not before.assets.keys() & ConsoleSite.load(tmp_path, []).assets.keys()


@pytest.mark.parametrize(
    ("connection", "name", "origin"),
    [
        (None, "account", "https://account.blob.core.windows.net"),
        ("AccountName=other;AccountKey=a2V5", None, "https://other.blob.core.windows.net"),
        (
            "AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:10000/a;"
            "QueueEndpoint=http://127.0.0.1:10001/a;TableEndpoint=http://127.0.0.1:10002/a",
            None,
            "http://127.0.0.1:10000",
        ),
    ],
)
def test_pages_read_from_the_storage_account_and_from_what_the_settings_name(
    connection: str | None, name: str | None, origin: str
) -> None:
    settings = Settings.model_construct(
        taskcluster_root_url="https://tc.example.com",
        root_access_token=SecretStr(""),
        message_signing_keys=[],
        access_token_keys=[],
        storage_connection_string=None if connection is None else SecretStr(connection),
        storage_account_name=name,
        servicebus_namespace="namespace",
        console_sources="https://login.example.com https://graph.example.com",
    )
    assert sources(settings) == [origin, "https://login.example.com", "https://graph.example.com"]
