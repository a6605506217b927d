"""Progress: one line where somebody watches, once it takes long; nothing in a pipe."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from tools.admin.tables import SILENT_SECONDS, Progress


class Terminal(StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that tests move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("stream", [Terminal, StringIO])
def test_progress_is_shown_in_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, stream: type[StringIO]) -> None:
    written = stream()
    monkeypatch.setattr(sys, "stderr", written)
    clock = Clock()
    with Progress(clock) as progress:
        progress.at("1 of 2")
        assert written.getvalue() == "", "it does not take long yet"
        clock.now = SILENT_SECONDS + 1
        progress.at("2 of 2")
    assert ("2 of 2" in written.getvalue()) == written.isatty()
    assert written.getvalue().endswith("\r\x1b[K") == written.isatty(), "and taken away in the end"


def test_progress_is_taken_away_when_the_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    clock = Clock()
    with pytest.raises(ValueError, match="broken"), Progress(clock) as progress:
        clock.now = SILENT_SECONDS + 1
        progress.at("half")
        raise ValueError("broken")
    assert written.getvalue().endswith("\r\x1b[K")
