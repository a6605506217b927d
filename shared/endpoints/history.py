"""The endpoint for how busy the service was: models, row and handler (contract 2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shared.api.endpoint import PARAMETERS, Call, Endpoint
from shared.domain.dates import format_date, parse_date
from shared.domain.history import Figures
from shared.errors import InputError
from shared.services.overview import OverviewServices
from shared.types import Closed, Count, Date, optional

UNASKED = timedelta(days=1)
"""How far back samples go where the caller does not say."""


class HistorySample(Closed):
    """What waited and ran at a time, and what happened since the sample before."""

    time: Date
    pending: Count
    claimed: Count
    oldestPendingSeconds: Count
    completed: Count
    failed: Count
    exception: Count
    waitP50Seconds: float = optional()
    waitP95Seconds: float = optional()


class HistoryResponse(Closed):
    """Samples, first to last."""

    intervalSeconds: Count
    samples: list[HistorySample]


async def history(services: OverviewServices, call: Call) -> Mapping[str, Any]:
    """history. Raises InputError for a `from` that is no date."""
    interval, found = await services.history.read(
        call.query.get("taskQueueId"), _since(call.query.get("from"), services.runtime.now())
    )
    return {
        "intervalSeconds": int(interval.total_seconds()),
        "samples": [_sample(time, figures) for time, figures in found],
    }


def _since(text: str | None, now: datetime) -> datetime:
    if text is None:
        return now - UNASKED
    try:
        return parse_date(text)
    except ValueError:
        raise InputError(f"from is no date-time: {text!r}") from None


def _sample(time: datetime, figures: Figures) -> dict[str, Any]:
    return {
        "time": format_date(time),
        "pending": figures.pending,
        "claimed": figures.claimed,
        "oldestPendingSeconds": figures.oldest,
        "completed": figures.completed,
        "failed": figures.failed,
        "exception": figures.exception,
        **waited(figures),
    }


def waited(figures: Figures) -> dict[str, float]:
    """How long runs had waited when they were started: nothing if none was."""
    waits = {"waitP50Seconds": figures.wait(0.5), "waitP95Seconds": figures.wait(0.95)}
    return {name: round(seconds, 1) for name, seconds in waits.items() if seconds is not None}


ENDPOINTS: tuple[Endpoint[OverviewServices], ...] = (
    Endpoint(
        name="history",
        method="GET",
        route="/history",
        handler=history,
        title="History",
        description="Returns how many runs waited and ran over time, how many were resolved and how long they had "
        "waited, of one task queue or of all together: every five minutes of the last two days, every hour if `from` "
        "is earlier. Not part of the public API.",
        category="Monitoring",
        scopes="queue:get-history",
        query={"taskQueueId": PARAMETERS["taskQueueId"], "from": r"^[0-9TtZz :.+-]{1,40}$"},
        output=HistoryResponse,
        output_schema="history-response",
        stability="experimental",
    ),
)
