"""Every rule that code, tests and documents cite is in docs/contract.md or docs/design.md, under a stable anchor."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.local.state import ROOT

DOCUMENTS = {"contract": "docs/contract.md", "trap": "docs/contract.md", "design": "docs/design.md"}
FOLDERS = ("docs", "functions", "infra", "shared", "tests", "tools", "worker")
SUFFIXES = {".py", ".md", ".js", ".cjs", ".bicep"}

_SECTIONS = r"\d+(?:\.\d+)*(?:(?:, | and )\d+(?:\.\d+)*)*"
_CITATION = re.compile(rf"\b(contract|design|trap) ({_SECTIONS})")
_LINK = re.compile(r"(contract|design)\.md#([a-z]+-[0-9-]+)")


def anchors(document: str) -> set[str]:
    return set(re.findall(r'<a id="([^"]+)"></a>', (ROOT / document).read_text()))


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and "node_modules" not in path.parts and path.name != "test_citations.py":
                yield path


def cited(text: str) -> Iterator[tuple[str, str]]:
    """Document and anchor of each citation: "contract 4.2, 4.3" cites two sections."""
    for kind, sections in _CITATION.findall(text):
        for section in re.findall(r"[\d.]+", sections):
            yield DOCUMENTS[kind], f"{kind}-{section.replace('.', '-')}"
    for name, anchor in _LINK.findall(text):
        yield f"docs/{name}.md", anchor


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(contract 4.2, 4.3, design 5)", ["contract-4-2", "contract-4-3", "design-5"]),
        ("contract 3.3 and 3.5", ["contract-3-3", "contract-3-5"]),
        ("(trap 12)", ["trap-12"]),
        ("[x](contract.md#contract-15)", ["contract-15"]),
        ("by design 2 things", ["design-2"]),
    ],
)
def test_citations_are_recognised(text: str, wanted: list[str]) -> None:
    assert [anchor for _, anchor in cited(text)] == wanted


def test_every_cited_section_exists() -> None:
    known = {document: anchors(document) for document in set(DOCUMENTS.values())}
    missing = {
        f"{path.relative_to(ROOT)}: {document}#{anchor}"
        for path in files()
        for document, anchor in cited(path.read_text())
        if anchor not in known[document]
    }
    assert missing == set()


def test_anchors_are_unique() -> None:
    for document in set(DOCUMENTS.values()):
        found = re.findall(r'<a id="([^"]+)"></a>', (ROOT / document).read_text())
        assert len(found) == len(set(found))


@pytest.mark.parametrize("document", sorted(set(DOCUMENTS.values())))
def test_links_inside_a_document_lead_to_an_anchor(document: str) -> None:
    links = re.findall(r"\]\(#([^)]+)\)", (ROOT / document).read_text())
    assert links
    assert set(links) <= anchors(document)
