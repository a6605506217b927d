"""Reads the commands that operators are told to run."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tools.local.state import ROOT

OPERATIONS = ROOT / "docs" / "operations.md"
REGION = ROOT / "docs" / "incidents" / "region.md"
PAGES = (
    OPERATIONS,
    *sorted((ROOT / "docs" / "incidents").glob("*.md")),
    ROOT / "docs" / "workers-azure.md",
    ROOT / "infra" / "README.md",
)


def blocks(page: Path) -> list[str]:
    """Returns the shell commands of a page, block by block."""
    found = re.finditer(r"^( *)```(?:sh|console)\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(match[2]) for match in found]
