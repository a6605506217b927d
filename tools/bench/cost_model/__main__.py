"""`python -m tools.bench.cost_model [--inputs FILE]`: the cost model's tables.

Prints the tables of docs/scaling.md; `--write` puts them into it. Prices, assumptions and loads come from
tools/bench/cost_inputs.json or a file like it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tools.bench.cost_model.model import INPUTS
from tools.bench.cost_model.tables import DOCUMENT, document, report


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.cost_model", description=__doc__)
    parser.add_argument("--inputs", type=Path, default=INPUTS, help="prices, assumptions and loads")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    arguments = parser.parse_args()
    tables = report(json.loads(arguments.inputs.read_text(encoding="utf-8")))
    if arguments.write:
        DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8"), tables), encoding="utf-8")
    else:
        print(tables)


if __name__ == "__main__":
    main()
