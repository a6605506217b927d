"""Writes the texts anew; with `--compare NAME`, only says by its exit code whether one of them would change."""

from __future__ import annotations

import argparse
import sys

from tests.infra.kept.texts import FOLDER, TEXTS


def main() -> int:
    """1 if the text that is compared would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", choices=TEXTS)
    name = parser.parse_args().compare
    if name:
        return int((FOLDER / name).read_text() != TEXTS[name]())
    for each, text in TEXTS.items():
        (FOLDER / each).write_text(text())
        print(FOLDER / each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
