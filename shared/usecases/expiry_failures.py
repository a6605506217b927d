"""What the expiry job could not delete: logged and counted."""

from __future__ import annotations

import logging

from shared.errors import ServiceError
from shared.runtime import Runtime
from shared.storage.interface import StorageUnavailable
from shared.telemetry.instruments import EXPIRATIONS_FAILED

log = logging.getLogger("taskcluster.expiration")

STUCK_AFTER = 5
"""Failures in a row, over a day or more, after which a deletion needs a person."""


class ProcessDied(ServiceError):
    """The process that tried to delete something did not live to say what became of it."""

    def __init__(self) -> None:
        super().__init__("the process that tried it has died")


class ExpiryFailures:
    """Tells operators of what could not be deleted."""

    def __init__(self, runtime: Runtime) -> None:
        self._meter = runtime.meter

    def note(self, kind: str, key: str, failures: int, error: Exception) -> None:
        """Notes that what this row of the Expiry table is about could not be deleted, so many times in a row."""
        is_stuck = failures >= STUCK_AFTER
        self._meter.add(EXPIRATIONS_FAILED, kind, "yes" if is_stuck else "no")
        details = {"action": "expiration_stuck" if is_stuck else "expiration_failed", "failures": failures}
        passing = isinstance(error, StorageUnavailable | ProcessDied)
        log.log(
            logging.ERROR if is_stuck or not passing else logging.WARNING,
            "cannot delete %s (failed %d times in a row): %s",
            key,
            failures,
            error,
            extra=details,
            exc_info=None if passing else error,
        )
