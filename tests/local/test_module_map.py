"""docs/modules.md says what each module and each file of tests is about, as they say it themselves."""

from __future__ import annotations

from local.module_map import DOCUMENT, document


def test_the_map_is_as_it_is_written() -> None:
    assert DOCUMENT.read_text() == document(), "run: .venv/bin/python -m local.module_map"
