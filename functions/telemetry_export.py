"""/metrics for Prometheus, and the timer that reads the gauges for exporters."""

from __future__ import annotations

import azure.functions as func

from functions import process
from shared.api.answer import Answer
from shared.api.endpoint import Call, Endpoint
from shared.services import Services
from shared.telemetry.prometheus import CONTENT_TYPE, exposition

blueprint = func.Blueprint()
"""Registered only where telemetry is exported."""


async def metrics(services: Services, call: Call) -> Answer:
    """The gauges as of now, and what this process has counted."""
    await services.gauges.refresh()
    text = exposition(services.runtime.meter, process.TELEMETRY.process)
    return Answer(body=text.encode(), content_type=CONTENT_TYPE)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        name="metrics",
        method="GET",
        route="/metrics",
        handler=metrics,
        title="Metrics",
        description="What is measured, as Prometheus scrapes it.",
        category="Monitoring",
        scopes="queue:metrics",
    ),
)


@blueprint.function_name("observe")
@blueprint.timer_trigger(arg_name="timer", schedule="15 * * * * *")
async def observe(timer: func.TimerRequest) -> None:
    """Reads the gauges, in one process of the deployment."""
    services = await process.services()
    await services.gauges.refresh()
