"""Mistakes to plant into a copy of the templates."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from local.templates.__main__ import check
from tests.infra import templates


@dataclass(frozen=True)
class Mistake:
    """A replacement in one file, and words of the finding."""

    name: str
    file: str
    old: str
    new: str
    found: str


def planted(mistake: Mistake, folder: Path) -> list[str]:
    """What is found in a copy of infra/ with a mistake, in the scenario with the most in it."""
    infra = folder / "infra"
    shutil.copytree(templates.INFRA, infra)
    path = infra / mistake.file
    text = path.read_text()
    assert mistake.old in text, f"nothing to replace for {mistake.name}: adapt the mistake"
    path.write_text(text.replace(mistake.old, mistake.new, 1))
    return check(infra, {"large, closed": templates.SCENARIOS["large, closed"]})


def check_found(mistake: Mistake, folder: Path) -> None:
    """Fails unless the mistake is found for what it is."""
    found = planted(mistake, folder)
    assert any(mistake.found in each for each in found), found or "nothing was found"
