"""Observes each call and each message: one log line, one span, duration and cost (requests to storage)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shared.runtime import Runtime
from shared.storage.counting import counting
from shared.telemetry.instruments import DURATION, STORAGE_OPERATIONS
from shared.telemetry.logs import bound
from shared.telemetry.tracing import Kind

log = logging.getLogger("taskcluster.calls")


@dataclass
class Observed:
    """To be filled in while it goes on: how it ended, whether for a reason of ours, and what else is known of it."""

    outcome: str = "broken off"
    failed: bool = False
    fields: dict[str, str | int] = field(default_factory=dict)


@contextmanager
def observed(
    runtime: Runtime, call: str, kind: Kind, fields: dict[str, str | int], *, parent: str | None = None
) -> Iterator[Observed]:
    """What happens inside belongs to this call. `fields` are in every line that is logged inside."""
    seen, started = Observed(), time.monotonic()
    with (
        bound(call=call, **fields),
        counting() as operations,
        runtime.tracer.span(call, kind, fields, parent=parent) as span,
    ):
        try:
            yield seen
        finally:
            seconds = time.monotonic() - started
            runtime.meter.record(DURATION, seconds, call, seen.outcome)
            runtime.meter.record(STORAGE_OPERATIONS, operations.total, call)
            figures = {**seen.fields, "outcome": seen.outcome, "storageOperations": operations.total}
            span.note(figures)
            if seen.failed:
                span.fail(seen.outcome)
            log.info(
                "%s: %s after %.0f ms",
                call,
                seen.outcome,
                seconds * 1000,
                extra={"action": "call_done", "milliseconds": round(seconds * 1000, 1), **figures},
            )
