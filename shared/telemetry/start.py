"""Telemetry as the settings ask for it."""

from __future__ import annotations

import logging
import threading

from opentelemetry.trace import Tracer, get_tracer

from shared.base.frozen import dataclass
from shared.base.ids import new_slugid
from shared.base.settings import Settings
from shared.telemetry.instruments import SCOPE
from shared.telemetry.logs import structure_logs
from shared.telemetry.meter import Meter

log = logging.getLogger("taskcluster.telemetry")


@dataclass(frozen=True)
class Telemetry:
    """Everything that observes a process; `process` is its name among those of the deployment."""

    process: str
    meter: Meter
    tracer: Tracer | None


def start_telemetry(settings: Settings) -> Telemetry:
    """Starts structured logs, and exporters where they are set up. Exporters take a second or more to load, so they are
    loaded in parallel with the first calls. If one cannot be loaded, that is logged and it is left out: the service
    does not depend on it."""
    structure_logs()
    process, meter = new_slugid(), Meter()
    if not settings.exports_telemetry:
        return Telemetry(process, meter, None)

    def load() -> None:
        try:
            from shared.telemetry.export import start_export

            export = start_export(settings, process)
        except Exception:
            log.exception("telemetry is not exported", extra={"action": "telemetry_failed"})
            return
        export.listen(meter)
        log.info("telemetry is exported", extra={"action": "telemetry_started"})
        export.take_lines()

    threading.Thread(target=load, name="telemetry", daemon=True).start()
    return Telemetry(process, meter, get_tracer(SCOPE))  # its spans go nowhere until the exporter has been loaded
