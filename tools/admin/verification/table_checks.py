"""Tables: conditions, transactions, order, sizes."""

from __future__ import annotations

from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableTransactionError, UpdateMode

from tools.admin.verification.core import Check, Deployment, Differs, expect, refused

KEYS = ["-", "0", "A", "Z", "_", "a", "task.status", "task/", "upload~0001", "upload\x7f", "z", "~"]
"""Keys in the order of their character codes, which ranges of keys rely on."""


def _row(partition: str, key: str, **more: Any) -> dict[str, Any]:
    return {"PartitionKey": partition, "RowKey": key, **more}


def conditional_transactions(deployment: Deployment) -> None:
    """A transaction with a stale row, with one that exists already or with a merge or deletion of one that is missing
    changes nothing and says which row it was."""
    table = deployment.table
    first = table.create_entity(_row("conditions", "a", n=1))
    table.update_entity(_row("conditions", "a", n=2))
    stale = (
        "update",
        _row("conditions", "a", n=3),
        {"etag": first["etag"], "match_condition": MatchConditions.IfNotModified},
    )
    for operation, code in (
        (stale, "UpdateConditionNotSatisfied"),
        (("create", _row("conditions", "a")), "EntityAlreadyExists"),
        (("update", _row("conditions", "guard"), {"mode": UpdateMode.MERGE}), "ResourceNotFound"),
        (("delete", _row("conditions", "guard")), "ResourceNotFound"),
    ):
        try:
            table.submit_transaction([("create", _row("conditions", "b")), operation])
        except TableTransactionError as error:
            name = _code(error)
            expect((error.index, name) == (1, code), f"row {error.index} is refused with {name}, not row 1 with {code}")
        else:
            raise Differs(f"a transaction that should fail with {code} is committed")
        try:
            table.get_entity("conditions", "b")
        except ResourceNotFoundError:
            continue
        raise Differs("a failed transaction has left a row behind")


def _code(error: TableTransactionError) -> str:
    code: object = getattr(error, "error_code", None)
    return str(getattr(code, "value", code))


def transactions_of_a_hundred(deployment: Deployment) -> None:
    """A transaction has 100 operations at most."""
    table = deployment.table
    table.submit_transaction([("create", _row("hundred", f"{number:03}")) for number in range(100)])
    refused(
        "one of 101",
        lambda: table.submit_transaction([("create", _row("more", f"{number:03}")) for number in range(101)]),
    )


def keys_sort_by_code(deployment: Deployment) -> None:
    """Row keys are compared by the codes of their characters, and may have those that ours have."""
    table = deployment.table
    for key in KEYS:
        if "/" not in key and "\x7f" not in key:
            table.upsert_entity(_row("order", key))
    found = [row["RowKey"] for row in table.query_entities("PartitionKey eq 'order'")]
    expect(found == [key for key in KEYS if key in found], f"rows come in the order {found}")
    ranged = table.query_entities("PartitionKey eq 'order' and RowKey ge 'upload~' and RowKey lt 'upload\x7f'")
    keys = [row["RowKey"] for row in ranged]
    expect(keys == ["upload~0001"], f"the range of keys that begin with upload~ has {keys}")


def row_sizes(deployment: Deployment) -> None:
    """A property has 64 KiB at most, and a row 1 MiB."""
    table = deployment.table
    full = bytes(64 * 1024)
    table.create_entity(_row("sizes", "a", value=full))
    for key, properties in (
        ("property", {"value": bytes(64 * 1024 + 1)}),
        ("row", {f"value{number}": full for number in range(17)}),
    ):
        try:
            table.create_entity(_row("sizes", key, **properties))
        except HttpResponseError:
            continue
        except AzureError as error:
            raise Differs(f"a {key} that is too large ends with {error}") from error
        raise Differs(f"a {key} that is too large is accepted")


CHECKS = (
    Check("conditional-transactions", conditional_transactions),
    Check("transactions-of-a-hundred", transactions_of_a_hundred, "Azurite accepts more operations"),
    Check("keys-sort-by-code", keys_sort_by_code),
    Check("row-sizes", row_sizes, "Azurite accepts rows of more than 1 MiB"),
)
