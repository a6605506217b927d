"""Writes the texts anew."""

from __future__ import annotations

from tests.infra.kept.texts import FOLDER, TEXTS

for name, text in TEXTS.items():
    (FOLDER / name).write_text(text())
    print(FOLDER / name)
