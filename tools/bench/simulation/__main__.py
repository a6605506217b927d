"""`python -m tools.bench.simulation [--write]`: print the tables of the simulation, or put them into docs."""

from __future__ import annotations

import argparse
import re

from tools.bench.cost_model.tables import DOCUMENT
from tools.bench.simulation.scenarios import tables

MARKS = ("<!-- made by python -m tools.bench.simulation --write -->", "<!-- end of the simulation -->")


def main() -> None:
    """Run all scenarios: less than a minute."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.simulation", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put tables and charts into docs")
    arguments = parser.parse_args()
    text, charts = tables()
    if not arguments.write:
        print(text)
        return
    made = f"{MARKS[0]}\n\n{text}\n\n{MARKS[1]}"
    pattern = f"{re.escape(MARKS[0])}.*?{re.escape(MARKS[1])}"
    DOCUMENT.write_text(
        re.sub(pattern, lambda _: made, DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL), encoding="utf-8"
    )
    for name, drawing in charts.items():
        (DOCUMENT.parent / name).write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main()
