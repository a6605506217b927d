"""What a terminal may be shown of bytes that others wrote: text and colours, nothing that it would obey."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<colors>[0-9;:]*m)"  # colours and the like
    rb"|\x1b\[[0-?]*[ -/]*[@-~]"  # cursor, screen, modes
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, clipboard, strings for devices
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # others of two characters and more
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"  # control characters but tab, new line, carriage return
)
_BEGUN = re.compile(rb"\x1b(?!\[[0-9;:]*m)")
"""An escape that has no end yet: what is left of others are colours."""
_LONGEST = 4096
"""Bytes after which a sequence that does not end is no sequence."""


class Harmless:
    """Takes bytes as they come, and gives what of them is harmless; a sequence may be cut between two pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be shown now."""
        data = _SEQUENCE.sub(_kept, self._rest + piece)
        begun = _BEGUN.search(data)
        if begun is None:
            self._rest = b""
            return data
        if len(data) - begun.start() > _LONGEST:
            self._rest = b""
            return data.replace(b"\x1b", b"")
        self._rest = data[begun.start() :]
        return data[: begun.start()]


def _kept(found: re.Match[bytes]) -> bytes:
    return found.group() if found.group("colors") else b""
