"""Timer functions: periodic work that no message triggers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import azure.functions as func
from opentelemetry.trace import SpanKind

from functions import LONGEST_RUN, process
from functions.observation import observed
from shared.app.services import Services

log = logging.getLogger("taskcluster.housekeeping")

EXPIRY_SECONDS = 240.0
"""The expiry job ends after this, and its next run continues."""

OBSERVED: Final = "15 * * * * *" if process.SETTINGS.exports_telemetry else "15 */5 * * * *"
"""Schedule of `observe`: exporters need the gauges every minute."""

blueprint = func.Blueprint()


@asynccontextmanager
async def _run(name: str) -> AsyncIterator[Services]:
    """Runs one timer function within the time limit, and observes it. An alert is raised when no run is observed."""
    async with asyncio.timeout(LONGEST_RUN):
        services = await process.services()
        with observed(services.runtime, name, SpanKind.INTERNAL, {}) as seen:
            yield services
            seen.outcome = "done"


@blueprint.function_name("expire")
@blueprint.timer_trigger(arg_name="timer", schedule="0 */10 * * * *")
async def expire(timer: func.TimerRequest) -> None:
    """Deletes what has expired: one small read when nothing is due."""
    async with _run("expire") as services:
        looked_at = await services.expiration.run(EXPIRY_SECONDS)
        if looked_at:
            log.info("looked at %d expired things", looked_at, extra={"action": "expired", "count": looked_at})


@blueprint.function_name("reconcile")
@blueprint.timer_trigger(arg_name="timer", schedule="30 */5 * * * *")
async def reconcile(timer: func.TimerRequest) -> None:
    """Restores messages that holders of poll URLs have hidden or deleted: one small read a pool when all is well."""
    async with _run("reconcile") as services:
        looked_into = await services.reconciler.check_all()
        if looked_into:
            details = {"action": "reconciled", "count": looked_into}
            log.warning("looked into %d pending runs without a visible message", looked_into, extra=details)


@blueprint.function_name("observe")
@blueprint.timer_trigger(arg_name="timer", schedule=OBSERVED)
async def observe(timer: func.TimerRequest) -> None:
    """Reads the gauges for exporters and notes which task queues wait, in one process of the deployment."""
    async with _run("observe") as services:
        if process.SETTINGS.exports_telemetry:
            await services.gauges.refresh()
        await services.gauges.note_waiting()
        await services.refused_credentials.forget()
