"""Scenarios that measure one call each, by family; importing them fills `tests.promises.azurite.budgets.BUDGETS`."""

from tests.promises.azurite.calls import (
    artifacts,
    creation,
    expiry,
    handlers,
    histories,
    index,
    lifecycle,
    lists,
    sign_in,
    work,
)

__all__ = ["artifacts", "creation", "expiry", "handlers", "histories", "index", "lifecycle", "lists", "sign_in", "work"]
