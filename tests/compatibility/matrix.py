"""docs/compatibility.md: the rows of the contract's table, each with the test that proves what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local.state import ROOT
from tests.compatibility.rows import ROWS

DOCUMENT = ROOT / "docs" / "compatibility.md"

_ERAS = {"N": "today", "P": "newest client", "O": "2019", "D": "2015 drafts"}
_INTRODUCTION = """\
# Compatibility

<!-- Written by `./dev test -m endpoint --write-compatibility`, from the tests that passed in that run. -->

Every endpoint that Taskcluster's Queue has had: when, whether it is served here, and the test that proves it. The
eras: *today*, the clients and workers of 2026; *newest client*, only in the PyPI client 113; *2019*, the Queue on Azure
tables before it moved; *2015 drafts*, the first ways to poll Azure queues. A test counts only if the endpoint answered
it with success, and the answer kept the schema that the deployment publishes; for an endpoint that is not served, if it
was answered as the table says.

What a deployment serves is told by itself, for the generators of clients: `/references/manifest.json`, the references
below it, `/schemas/queue/v1/…`, and an OpenAPI 3.1 document at `/references/queue/v1/openapi.json`.
"""

Proofs = Mapping[str, Sequence[str]]
"""Names of rows, each with the tests that passed for it."""


def document(proofs: Proofs) -> str:
    """The document. Raises KeyError for a row without a proof."""
    lines = ["| # | Endpoint | Method and route | Eras | Served | Proved by |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        eras = ", ".join(_ERAS[era] for era in row.eras)
        tests = ", ".join(_linked(test) for test in sorted(proofs[row.name]))
        lines.append(f"| {row.number} | {row.name} | `{row.route}` | {eras} | {row.support} | {tests} |")
    return "\n".join([_INTRODUCTION, *lines, ""])


def _linked(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name}](../{path})"
