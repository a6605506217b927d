"""Mistakes to plant into a copy of the templates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.infra import templates
from tools.local.templates.__main__ import problems

WITH_MOST_IN_IT = "large, closed"
"""The scenario."""


@dataclass(frozen=True)
class Mistake:
    """A replacement in one file, and words of the finding."""

    name: str
    file: str
    old: str
    new: str
    found: str


@contextmanager
def planted(folder: Path, mistake: Mistake) -> Iterator[None]:
    """The copy with the mistake, for as long as it is looked at."""
    path = folder / mistake.file
    text = path.read_text()
    assert mistake.old in text, f"nothing to replace for {mistake.name}: adapt the mistake"
    path.write_text(text.replace(mistake.old, mistake.new, 1))
    try:
        yield
    finally:
        path.write_text(text)


def found(infra: Path) -> Iterator[str]:
    """What is wrong with a copy of infra/."""
    environment = {WITH_MOST_IN_IT: templates.SCENARIOS[WITH_MOST_IN_IT]}
    return (text for text, _ in problems(infra, environment))


def check_found(mistake: Mistake, infra: Path) -> None:
    """Fails unless the mistake is found for what it is."""
    with planted(infra, mistake):
        others: list[str] = []
        for each in found(infra):
            if mistake.found in each:
                return
            others.append(each)
    raise AssertionError(others or "nothing was found")
