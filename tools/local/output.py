"""Makes texts fit for printing: without characters that a terminal would obey, and on any terminal."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

OBEYED = (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Codes of characters that act on what is shown: control characters, and those that turn the direction of text."""
_ESCAPED = {code: f"\\u{code:04x}" for code in OBEYED if code >= 0x7F}


def harmless(text: str) -> str:
    """Returns a text of several lines without the characters that a terminal would obey."""
    return text.translate({code: None for code in OBEYED if chr(code) not in "\t\n"})


def prepare() -> None:
    """Lets characters that the terminal's encoding lacks be printed as question marks from now on."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def as_json(value: Any, indent: int | None = None) -> str:
    """Returns a value as JSON, with escapes for what a terminal would obey, or its encoding may lack."""
    is_utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(value, indent=indent, ensure_ascii=not is_utf8)
    return text.translate(_ESCAPED)
