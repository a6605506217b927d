"""/metrics for Prometheus, where telemetry is exported."""

from __future__ import annotations

from functions import process
from shared.api.answer import Answer
from shared.api.endpoint import Call, Endpoints
from shared.app.services import Services
from shared.telemetry.meter import CONTENT_TYPE, exposition

ENDPOINTS = Endpoints[Services]("Monitoring")


@ENDPOINTS("metrics", "GET /metrics", "Metrics", scopes="queue:metrics")
async def metrics(services: Services, call: Call) -> Answer:
    """What is measured, as Prometheus scrapes it: the gauges as of now, and what this process has counted."""
    await services.gauges.refresh()
    services.waiting_workers.report()
    text = exposition(services.runtime.meter, process.TELEMETRY.process)
    return Answer(body=text.encode(), content_type=CONTENT_TYPE)
