"""Commands on the index in the storage account: `index check`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shared.runtime import Runtime
from shared.store.connection import AzureStorage
from tools.admin import backup, index_inspection
from tools.admin.account import Records, with_account
from tools.admin.storage_commands import repaired, report
from tools.admin.tables import Progress

index = typer.Typer(help="The index; `taskcluster api index findTask|listTasks` reads it.", no_args_is_help=True)


@index.command("check")
def check(
    repair: Annotated[bool, typer.Option("--repair", help="Put right what can be put right.")] = False,
) -> None:
    """Compare the rows of the index with each other: reads the whole table. Exit code 1 if anything is wrong.

    Each entry is listed by the namespaces above it, and each namespace is looked into when something expires there.
    Whether tasks are where they should be is for `task check`. Needs the storage account: STORAGE_ACCOUNT_NAME (with
    `az login`) or STORAGE_CONNECTION_STRING.
    """

    async def work(account: AzureStorage) -> dict[str, list[dict[str, Any]]]:
        records = Records.of(account.storage, Runtime())
        rows = await backup.index_rows(account, progress.at)
        sweeps = backup.scheduled_sweeps(account)
        found = await index_inspection.inspect_index(records, rows, sweeps, progress.at)
        settled = {}
        for path, findings in found.items():
            settled[path] = await repaired(findings, repair=repair)
            progress.at(f"{len(settled):,} of {len(found):,} paths with findings done")
        return settled

    with Progress() as progress:
        found = with_account(work)
    report(found)
