"""Commands that look into the storage account: `task`, `group`, `queue`, `backup`."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from shared.base.concurrency import in_waves
from shared.overview import operations as poison
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES
from shared.runtime import Runtime
from shared.store.connection import AzureStorage
from tools.admin import backup, inspection
from tools.admin.account import Records, with_account, with_records
from tools.admin.output import fail, show
from tools.admin.tables import Progress
from tools.local.entities import TABLES

WIDTH = 16
AT_ONCE = 200
"""Number of tasks that are looked at between two reports of progress."""

_NEEDS = "Needs the storage account: STORAGE_ACCOUNT_NAME (with `az login`) or STORAGE_CONNECTION_STRING."
tasks = typer.Typer(
    help=f"Tasks: whether their rows agree. `taskcluster task` does the rest. {_NEEDS}", no_args_is_help=True
)
groups = typer.Typer(
    help=f"Task groups; `taskcluster group` does what is not here. `check`: whether the rows agree. {_NEEDS}",
    no_args_is_help=True,
)
queues = typer.Typer(
    help=f"Task queues; `internal` and `poison`: the service's own queues. {_NEEDS}", no_args_is_help=True
)
poisoned = typer.Typer(help="Messages that were given up.", no_args_is_help=True)
backups = typer.Typer(help=f"Tables to files and back. {_NEEDS}", no_args_is_help=True)
queues.add_typer(poisoned, name="poison")

AtRest = Annotated[
    bool, typer.Option("--at-rest", help="Count also what calls may still be at: for an app that is stopped.")
]
Repair = Annotated[bool, typer.Option("--repair", help="Put right what can be put right.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="claim, deadline, resolved, events or group-jobs.")]
MessageId = Annotated[str | None, typer.Option("--id", help="Only the message of this id.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, show_default=False)]


@tasks.command("check")
def check_task(
    task_id: Annotated[list[str] | None, typer.Argument(metavar="TASK_ID", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every task: reads the whole table.")] = False,
    at_rest: AtRest = False,
    repair: Repair = False,
) -> None:
    """Compare a task's rows, in the storage account, with its status. Exit code 1 if anything is wrong."""
    if everything == bool(task_id):
        fail("name tasks, or say --all")

    async def check(account: AzureStorage) -> dict[str, Any]:
        records = _records(account, at_rest=at_rest)
        if not everything:
            return await _checked(records, task_id or [], repair=repair)
        found: dict[str, Any] = {}
        page: list[str] = []
        done = 0
        async for one in backup.all_tasks(account):
            page.append(one)
            if len(page) == AT_ONCE:
                found |= await _checked(records, page, repair=repair)
                done += len(page)
                progress.at(f"{done:,} tasks checked, {len(found):,} of them with findings")
                page.clear()
        return found | await _checked(records, page, repair=repair)

    with Progress() as progress:
        found = with_account(check)
    report(found)


@groups.command("check")
def check_group(
    task_group_id: Annotated[str, typer.Argument(metavar="TASK_GROUP_ID", show_default=False)],
    at_rest: AtRest = False,
    repair: Repair = False,
) -> None:
    """Compare a group's rows, and those of all of its tasks, with their statuses. Exit code 1 if anything is wrong."""

    async def check(account: AzureStorage) -> dict[str, Any]:
        records = _records(account, at_rest=at_rest)
        findings = await inspection.inspect_group(records, task_group_id)
        found = await repaired(findings, repair=repair)
        members = await inspection.group_tasks(records, task_group_id)
        all_found = {task_group_id: found} if found else {}
        for start in range(0, len(members), AT_ONCE):
            all_found |= await _checked(records, members[start : start + AT_ONCE], repair=repair)
            progress.at(f"{min(start + AT_ONCE, len(members)):,} of {len(members):,} tasks checked")
        return all_found

    with Progress() as progress:
        found = with_account(check)
    report(found)


@queues.command("internal")
def list_queues() -> None:
    """Show how many messages the internal queues hold (hidden ones included), and how many were given up."""
    show(with_records(lambda records: poison.queue_depths(records.storage.queues)))


@poisoned.command("list")
def list_poison(queue: Queue) -> None:
    """Show the first messages that a queue gave up."""
    _known(queue)
    show(with_records(lambda records: poison.given_up_messages(records.storage.queues, queue)))


@poisoned.command("redrive")
def redrive_poison(queue: Queue, message_id: MessageId = None) -> None:
    """Send what a queue gave up to it once more. What can't be read stays."""
    _known(queue)
    with Progress() as progress:
        moved = with_records(
            lambda records: poison.move_poison(records.storage.queues, queue, "redrive", message_id, progress.at)
        )
    show(asdict(moved))


@poisoned.command("drop")
def drop_poison(
    queue: Queue,
    message_id: MessageId = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Remove what a queue gave up, for good."""
    _known(queue)
    if everything == (message_id is not None):
        fail("name a message with --id, or say --all")
    with Progress() as progress:
        moved = with_records(
            lambda records: poison.move_poison(records.storage.queues, queue, "delete", message_id, progress.at)
        )
    show(asdict(moved))


@backups.command("export")
def export_backup(folder: Folder) -> None:
    """Write all tables to files in a new folder that only you can read."""
    try:
        with Progress() as progress:
            counts = with_account(lambda account: backup.export_tables(account, TABLES, folder, progress.at))
        show(counts)
    except backup.BackupError as error:
        fail(str(error))


@backups.command("restore")
def restore_backup(
    folder: Folder,
    timers: Annotated[bool, typer.Option(help="Put the timers of all unresolved tasks: their messages are lost.")] = (
        True
    ),
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Put the files' rows over those that are there: what has happened since is undone."
        ),
    ] = False,
) -> None:
    """Write the files of an export to the tables: of an empty account, with the app stopped.

    One that has ended early goes on with the next call. Exit code 1 if tasks cannot be read: these get no timers.
    """

    async def restore(account: AzureStorage) -> dict[str, Any]:
        name = account.endpoints.table
        is_resumed = backup.is_begun(folder, name)
        if not overwrite and not is_resumed and (tables := await backup.occupied(account, TABLES)):
            raise backup.BackupError(f"{', '.join(tables)} are not empty; --overwrite puts the files' rows over theirs")
        counts = await backup.import_tables(account.storage, TABLES, folder, progress.at, account=name)
        if not timers:
            backup.forget_restore(folder)
            return {"entities": counts, "resumed": is_resumed}
        records = Records.of(account.storage, Runtime())
        ids = [task_id async for task_id in backup.all_tasks(account)]

        unreadable: list[str] = []

        async def revive(task_id: str) -> bool:
            try:
                return await backup.revive(records, task_id)
            except (ValueError, KeyError, TypeError) as error:  # of this row alone: the others need their timers
                unreadable.append(f"{task_id}: {error!r}")
                return False

        revived = 0
        for start in range(0, len(ids), AT_ONCE):
            revived += sum(await in_waves(WIDTH, revive, ids[start : start + AT_ONCE]))
            progress.at(f"timers of {min(start + AT_ONCE, len(ids)):,} of {len(ids):,} tasks")
        backup.forget_restore(folder)
        return {"entities": counts, "revived": revived, "resumed": is_resumed, "unreadable": sorted(unreadable)}

    try:
        with Progress() as progress:
            restored = with_account(restore)
        show(restored)
    except backup.BackupError as error:
        fail(str(error))
    if restored.get("unreadable"):
        raise typer.Exit(1)


def _records(account: AzureStorage, *, at_rest: bool) -> Records:
    records = Records.of(account.storage, Runtime())
    return replace(records, settled=timedelta(0)) if at_rest else records


def _known(queue: str) -> None:
    if queue not in INTERNAL_QUEUES:
        fail(f"there is no queue {queue!r}; the queues are {', '.join(INTERNAL_QUEUES)}")


async def _checked(records: Records, task_ids: list[str], *, repair: bool) -> dict[str, Any]:
    """Returns the findings by task, of the tasks that have any."""

    async def check(task_id: str) -> tuple[str, list[dict[str, Any]]]:
        return task_id, await repaired(await inspection.inspect_task(records, task_id), repair=repair)

    return {task_id: found for task_id, found in await in_waves(WIDTH, check, task_ids) if found}


async def repaired(findings: list[inspection.Finding], *, repair: bool) -> list[dict[str, Any]]:
    """Returns the findings in the form in which they are shown, and repairs them if `repair`. One that has changed
    meanwhile is shown as not repaired."""
    return [
        {
            "finding": finding.text,
            "repairable": finding.repair is not None,
            "repaired": repair and finding.repair is not None and await finding.repair(),
        }
        for finding in findings
    ]


def report(found: dict[str, Any]) -> None:
    """Shows findings; exit code 1 if any is not repaired."""
    show(found)
    if any(not finding["repaired"] for findings in found.values() for finding in findings):
        raise typer.Exit(1)
