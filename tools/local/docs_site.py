"""`./dev docs`: the documentation as a site with search, from the same Markdown files that are read in the repository.

All of them are copied as they lie here, so that links from one to another hold as they are. Links to anything else of
the repository (code, folders) lead to its files on the web, at the revision that the site is built from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.local.state import ROOT

SITE = Path(".local") / "site"
SOURCE, HTML = SITE / "source", SITE / "html"
_LEFT_OUT = (".github", "tests")
"""Folders whose Markdown is left out of the site, since it is for GitHub and for tests."""
_PICTURES = ("*.webp", "*.svg")
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=[)\s])")


def repository(root: Path = ROOT) -> str:
    """Returns the address of the repository on the web, which a fork changes in one place."""
    url: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    return url


def pages(root: Path) -> list[Path]:
    """Returns the Markdown files of the site, relative to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=root, capture_output=True, encoding="utf-8", check=True
    ).stdout
    return [path for path in map(Path, listed.splitlines()) if path.parts[0] not in _LEFT_OUT]


def linked_files(root: Path) -> set[Path]:
    """Returns the files that pages link to besides pages, relative to the repository, if they exist."""
    known = set(pages(root))
    targets = {
        Path(os.path.normpath(page.parent / match[1]))
        for page in known
        for match in _LINK.finditer((root / page).read_text(encoding="utf-8"))
    }
    return {target for target in targets - known if (root / target).exists()}


def lay_out(root: Path, source: Path, revision: str) -> None:
    """Copies pages and pictures into a new folder, with links to other files leading to the web."""
    shutil.rmtree(source, ignore_errors=True)
    known = pages(root)
    for page in known:
        target = source / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            _with_links((root / page).read_text(encoding="utf-8"), page, set(known), root, revision), encoding="utf-8"
        )
    for picture in _pictures(root):
        target = source / picture
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / picture, target)


def build(root: Path = ROOT, *, revision: str = "main") -> int:
    """Builds the site into .local/site/html; returns the exit code. A dead link or anchor is an error."""
    lay_out(root, root / SOURCE, revision)
    return _run(root, "mkdocs", "build", "--strict")


def main(*, serve: bool, publish: str, alias: str) -> int:
    """Builds the site, and serves it until Ctrl-C or pushes it as a version. Returns the exit code."""
    code = build(revision=f"v{publish}" if publish[:1].isdigit() else "main")
    if code != 0:
        return code
    if serve:
        return _run(ROOT, "mkdocs", "serve")
    if publish:
        aliases = ["--update-aliases", publish, alias] if alias else [publish]
        return _run(ROOT, "mike", "deploy", "--push", *aliases)
    print(ROOT / HTML / "index.html")
    return 0


def _run(root: Path, program: str, *arguments: str) -> int:
    command = [str(Path(sys.executable).parent / program), *arguments, "--config-file", "docs/mkdocs.yml"]
    environment = {**os.environ, "REPOSITORY_URL": repository(root), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode


def _pictures(root: Path) -> Iterator[Path]:
    for pattern in _PICTURES:
        yield from (path.relative_to(root) for path in (root / "docs").rglob(pattern))


def _with_links(text: str, page: Path, known: set[Path], root: Path, revision: str) -> str:
    def link(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match[1]))
        if target in known or target.suffix in {".webp", ".svg"}:
            return match[0]
        if not (root / target).exists():
            return match[0]  # mkdocs names it
        kind = "tree" if (root / target).is_dir() else "blob"
        return f"{repository(root)}/{kind}/{revision}/{target}{match[2] or ''}"

    return _LINK.sub(link, text)
