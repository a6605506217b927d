"""What a terminal may be shown of bytes that others wrote: text and colours, nothing that it would obey."""

from __future__ import annotations

import codecs
import re

from tools.local.output import OBEYED

_BEGINS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
"""Characters that begin a sequence: the escape, and those that stand for it and the character behind it."""
_ALONE = "".join(map(chr, (code for code in OBEYED if chr(code) not in f"\t\n\r{_BEGINS}")))
_SEQUENCE = re.compile(
    r"\x1b\[(?P<colors>[0-9;:]*m)"  # colours and the like
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # cursor, screen, modes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, clipboard, devices
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # others of two characters and more
    rf"|[{re.escape(_ALONE)}]"
)
_BEGUN = re.compile(rf"(?!\x1b\[[0-9;:]*m)[{_BEGINS}]")
"""An escape that has no end yet: what is left of others are colours."""
_LONGEST = 4096
"""Characters after which a sequence that does not end is no sequence."""


class Harmless:
    """Takes bytes of UTF-8 as they come, and gives what of them is harmless; a sequence may be cut between two
    pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, piece: bytes) -> str:
        """What can be shown now."""
        text = _SEQUENCE.sub(_kept, self._rest + self._decoder.decode(piece))
        begun = _BEGUN.search(text)
        if begun is None:
            self._rest = ""
            return text
        if len(text) - begun.start() > _LONGEST:
            self._rest = ""
            return text.translate(dict.fromkeys(map(ord, _BEGINS)))
        self._rest = text[begun.start() :]
        return text[: begun.start()]


def _kept(found: re.Match[str]) -> str:
    return found.group() if found.group("colors") else ""
