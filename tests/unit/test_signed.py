"""Where the service signs something for a caller: the table of docs/security.md has each place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.local.state import ROOT

SIGNING = {
    "temporary_credentials",
    "make_bewit",
    "generate_queue_sas",
    "generate_blob_sas",
    "generate_container_sas",
    "generate_table_sas",
    "generate_account_sas",
}
MEANS = {
    "shared/auth/certificates.py",  # makes and checks certificates
    "shared/auth/hawk.py",  # makes and checks bewits and MACs
    "shared/store/authorisation.py",  # signs the app's own requests to its storage
}
KNOWS_THE_ROOT_TOKEN = {
    "shared/base/settings.py",
    "shared/app/components.py",  # the client that requests are checked by, and the issuer of claims and objects
    "shared/auth/sign_in/endpoints.py",
    "shared/index/endpoints.py",
}


def _code(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules that have one of these words: to read the others would take most of the time."""
    for path in [*(ROOT / "shared").rglob("*.py"), *(ROOT / "functions").rglob("*.py"), ROOT / "function_app.py"]:
        text = path.read_text()
        if any(word in text for word in words):
            yield path.relative_to(ROOT).as_posix(), ast.parse(text)


def _signs(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id=module), attr="digest" | "new"):
            return module == "hmac"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in SIGNING
    return False


def test_the_table_has_every_place_that_signs_for_callers() -> None:
    text = (ROOT / "docs/security.md").read_text()
    table = text[text.index("## What the service signs for callers") : text.index("## URLs for uploads")]
    named = set(re.findall(r"`(shared/\S+\.py)` \|$", table, re.MULTILINE))
    trees = _code("hmac", *SIGNING)
    signing = {path for path, tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and _signs(node)}
    assert signing - MEANS == named
    assert signing >= MEANS
    assert all(Path(ROOT / path).is_file() for path in named)


def test_the_root_token_is_in_no_other_hands() -> None:
    users = {
        path
        for path, tree in _code("root_access_token")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.AnnAssign)
        and "root_access_token" in ast.unparse(node if isinstance(node, ast.Attribute) else node.target)
    }
    assert users == KNOWS_THE_ROOT_TOKEN
