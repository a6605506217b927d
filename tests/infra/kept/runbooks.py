"""The commands that operators are told to run, each once, with the pages that have it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tools.local.state import ROOT

PAGES = (
    ROOT / "docs" / "operations.md",
    *sorted((ROOT / "docs" / "incidents").glob("*.md")),
    ROOT / "docs" / "workers-azure.md",
    ROOT / "infra" / "README.md",
)


def blocks(page: Path) -> list[str]:
    """The shell commands of a page, block by block."""
    found = re.finditer(r"^( *)```(?:sh|console)\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(match[2]) for match in found]


def text() -> str:
    """All of it."""
    pages: dict[str, list[str]] = {}
    for page in PAGES:
        for line in "".join(blocks(page)).replace("\\\n", "").splitlines():
            if line and not line.startswith("#") and page.stem not in pages.setdefault(line, []):
                pages[line].append(page.stem)
    return "".join(f"{line}\n    {', '.join(named)}\n" for line, named in sorted(pages.items()))
