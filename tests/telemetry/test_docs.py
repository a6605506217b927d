"""docs/observability.md describes every instrument, as the code has it."""

from __future__ import annotations

import re

from shared.telemetry.instruments import INSTRUMENTS
from tools.local.state import ROOT

PAGE = (ROOT / "docs" / "observability.md").read_text()


def test_every_instrument_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| `(queue_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (each.name, each.kind, ", ".join(f"`{label}`" for label in each.labels), each.description)
        for each in INSTRUMENTS
    ]
