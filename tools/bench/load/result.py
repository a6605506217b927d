"""What a run has measured, as it is kept in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FILE = "result.json"


@dataclass(kw_only=True)
class Row:
    """One measurement. A value is None that does not apply, or cannot be seen from here."""

    part: str
    name: str
    count: int = 0
    rate: float | None = None
    """Calls a second."""
    p50: float | None = None
    p99: float | None = None
    """The 99th percentile in milliseconds."""
    requests: float | None = None
    """Storage requests of each call."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Milliseconds of CPU of each call, by process."""
    failures: int = 0
    sent_again: int = 0
    """Number of calls that were refused and then sent again."""


@dataclass(kw_only=True)
class Curve:
    """How something grows: points of (size, value)."""

    name: str
    across: str
    unit: str
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(kw_only=True)
class Result:
    """The measurements of one run."""

    started: str
    commit: str
    preset: str
    target: str
    clients: int
    machine: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    """MB of memory at the end, by process."""
    failures: list[str] = field(default_factory=list)
    """The first failures of the run."""

    def row(self, name: str) -> Row | None:
        """Returns the measurement of that name."""
        return next((row for row in self.rows if row.name == name), None)

    def save(self, folder: Path) -> None:
        """Saves the result into a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Result:
        """Reads a run that was saved in this folder, or file. Raises OSError, ValueError."""
        text = (folder / FILE if folder.is_dir() else folder).read_text(encoding="utf-8")
        try:
            data = json.loads(text)
            data["rows"] = [Row(**row) for row in data["rows"]]
            data["curves"] = [
                Curve(**{**curve, "points": [(x, y) for x, y in curve["points"]]}) for curve in data["curves"]
            ]
            return cls(**data)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{folder} holds no result of ./dev bench: {error}") from error
