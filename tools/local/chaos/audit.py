"""What is left in storage after a chaos run: the records of the tasks, and no orphan."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from azure.data.tables.aio import TableServiceClient
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from shared.store import keys
from tools.local.chaos.graphs import Planned

WATCHED_TABLES = (keys.TASKS, keys.GROUPS, keys.POOLS)
_OF_GROUPS = {keys.GROUP, keys.DUE, "number", "scheduler"}  # kinds of rows of a group itself
ARTIFACT_CONTAINERS = (keys.PUBLIC, keys.PRIVATE)


async def leftovers(connection_string: str, planned: Collection[Planned]) -> list[str]:
    """Returns a line for each row, message and blob that should not be there any more, or should be and is not."""
    async with (
        TableServiceClient.from_connection_string(connection_string) as tables,
        QueueServiceClient.from_connection_string(connection_string) as queues,
        BlobServiceClient.from_connection_string(connection_string) as blobs,
    ):
        found = await asyncio.gather(_rows(tables, planned), _messages(queues), _blobs(blobs, planned))
    return [line for lines in found for line in lines]


async def _rows(tables: TableServiceClient, planned: Collection[Planned]) -> list[str]:
    tasks = {task.task_id: task for task in planned}
    wanted = {(keys.TASKS, task_id, key) for task_id in tasks for key in (keys.TASK_DEFINITION, keys.TASK_STATUS)}
    wanted |= {(keys.GROUPS, task.task_group_id, keys.member(task.task_id)) for task in planned}
    found: set[tuple[str, str, str]] = set()
    orphans: list[str] = []
    for table in WATCHED_TABLES:
        async for row in _entities(tables, table):
            place = (table, str(row["PartitionKey"]), str(row["RowKey"]))
            if place in wanted:
                found.add(place)
            elif not _may_stay(table, place[1], place[2], tasks):
                orphans.append(f"orphaned row: {'/'.join(place)}")
    return orphans + [f"row missing: {'/'.join(place)}" for place in sorted(wanted - found)]


def _may_stay(table: str, partition: str, key: str, tasks: Mapping[str, Planned]) -> bool:
    """Returns whether a row may exist in addition to those that every task has."""
    kind, _, rest = key.partition("~")
    if table == keys.TASKS:
        if kind == "dependent":
            return rest in tasks and partition in tasks[rest].dependencies
        return kind in {"artifact", "task"} and partition in tasks
    if table == keys.GROUPS and kind == "unblocks":
        required, _, dependent = rest.partition("~")
        edge = tasks.get(dependent)
        return edge is not None and required in edge.dependencies and partition == edge.task_group_id
    if table == keys.GROUPS:
        return kind in _OF_GROUPS and partition in {task.task_group_id for task in tasks.values()}
    return kind in {keys.POOL, "worker", keys.RETURNED}


async def _entities(tables: TableServiceClient, table: str) -> AsyncIterator[Mapping[str, Any]]:
    async with tables.get_table_client(table) as client:
        async for entity in client.list_entities(select=["PartitionKey", "RowKey"]):
            yield entity


async def _messages(queues: QueueServiceClient) -> list[str]:
    lines: list[str] = []
    async for queue in queues.list_queues():
        properties = await queues.get_queue_client(queue.name).get_queue_properties()
        if properties.approximate_message_count:
            lines.append(f"{properties.approximate_message_count} messages left in queue {queue.name}")
    return lines


async def _blobs(blobs: BlobServiceClient, planned: Collection[Planned]) -> list[str]:
    tasks = {task.task_id for task in planned}
    existing = {container.name async for container in blobs.list_containers()}
    lines: list[str] = []
    for container in existing.intersection(ARTIFACT_CONTAINERS):
        async for name in blobs.get_container_client(container).list_blob_names():
            if name.partition("/")[0] not in tasks:
                lines.append(f"orphaned blob: {container}/{name}")
    return lines
