"""A Dockerfile, as far as tests ask: its stages and their instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Stage:
    """What follows one FROM."""

    image: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        """Returns the arguments of each instruction of a kind."""
        return [arguments for name, arguments in self.instructions if name == instruction]

    def words(self, instruction: str) -> list[str]:
        """Returns the exec form of the last instruction of a kind. Raises ValueError for a shell form."""
        last = self.all(instruction)[-1]
        words: list[str] = json.loads(last[last.index("[") :])
        return words

    @property
    def environment(self) -> dict[str, str]:
        """Variables, in the form NAME=VALUE."""
        return dict(pair.split("=", 1) for line in self.all("ENV") for pair in line.split())


def stages(path: Path) -> list[Stage]:
    """Raises AssertionError for what stands before the first FROM and is no ARG."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        name, _, arguments = line.partition(" ")
        if not line.strip():
            continue
        if name == "FROM":
            image, _, alias = arguments.partition(" AS ")
            found.append(Stage(image, alias))
        elif found:
            found[-1].instructions.append((name, arguments.strip()))
        else:
            assert name == "ARG", line
    return found
