"""The version of the project: what pyproject.toml says, which the package carries."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

VERSION: Final[str] = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"]
"""The version without a leading v, which tags have."""
