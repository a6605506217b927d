"""Timer functions: periodic work that no message triggers."""

from __future__ import annotations

import logging
from typing import Final

import azure.functions as func

from functions import process

log = logging.getLogger("taskcluster.housekeeping")

LONGEST_RUN = 300.0
"""Seconds: a run ends after this, and the next one continues."""

OBSERVED: Final = "15 * * * * *" if process.SETTINGS.exports_telemetry else "15 */5 * * * *"
"""Schedule of `observe`: exporters need the gauges every minute. The history takes a sample every five minutes."""

blueprint = func.Blueprint()


@blueprint.function_name("expire")
@blueprint.timer_trigger(arg_name="timer", schedule="0 */10 * * * *")
async def expire(timer: func.TimerRequest) -> None:
    """Deletes what has expired: one small read when nothing is due."""
    services = await process.services()
    looked_at = await services.expiration.run(LONGEST_RUN)
    if looked_at:
        log.info("looked at %d expired things", looked_at, extra={"action": "expired", "count": looked_at})


@blueprint.function_name("reconcile")
@blueprint.timer_trigger(arg_name="timer", schedule="30 */5 * * * *")
async def reconcile(timer: func.TimerRequest) -> None:
    """Restores messages that holders of poll URLs have hidden or deleted: one small read a pool when all is well."""
    services = await process.services()
    looked_into = await services.reconciler.check_all()
    if looked_into:
        log.warning(
            "looked into %d pending runs without a visible message",
            looked_into,
            extra={"action": "reconciled", "count": looked_into},
        )


@blueprint.function_name("observe")
@blueprint.timer_trigger(arg_name="timer", schedule=OBSERVED)
async def observe(timer: func.TimerRequest) -> None:
    """Reads the gauges for exporters and takes the history's samples, in one process of the deployment."""
    services = await process.services()
    if process.SETTINGS.exports_telemetry:
        await services.gauges.refresh()
    await services.history.sample()
    await services.refused_credentials.forget()
