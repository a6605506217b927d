"""Checks of what is assumed of Azure (docs/assumptions.md), on a deployment: `./dev admin verify`."""

from __future__ import annotations

from tools.admin.verification import (
    azure_checks,
    blob_checks,
    bus_checks,
    description_check,
    front_checks,
    queue_checks,
    table_checks,
)
from tools.admin.verification.core import Check

CHECKS: tuple[Check, ...] = (
    *front_checks.CHECKS,
    *azure_checks.CHECKS,
    *description_check.CHECKS,
    *queue_checks.CHECKS,
    *table_checks.CHECKS,
    *blob_checks.CHECKS,
    *bus_checks.CHECKS,
)
"""All checks, in the order in which they run."""
