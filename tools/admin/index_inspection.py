"""Whether the rows of the index agree: each is listed by the namespaces above it, and is swept some day (design 9)."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.base.dates import parse_date
from shared.index.entries import Index
from shared.index.rules import namespaces_above, split
from shared.store import keys
from shared.store.expiring import is_over
from tools.admin.account import Records
from tools.admin.inspection import Finding
from tools.admin.output import Report, unwatched
from tools.admin.repair import Repair

PAGE = 1000
"""Number of rows after which the progress of the comparison is reported."""
TOP = "(top)"
"""Name of the namespace of paths without a dot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexRow:
    """An entry or a namespace, as it is stored."""

    partition: str
    key: str
    path: str
    expires: datetime

    @classmethod
    def of(cls, partition: str, key: str, path: str, expires: str) -> IndexRow:
        """Makes a row of its properties."""
        return cls(partition=partition, key=key, path=path, expires=parse_date(expires))

    @property
    def is_namespace(self) -> bool:
        """Whether it is a namespace, and no entry."""
        return self.key.startswith(keys.INDEX_NAMESPACES[0])


async def inspect_index(
    records: Records, rows: Iterable[IndexRow], swept: AsyncIterable[str], report: Report = unwatched
) -> dict[str, list[Finding]]:
    """Returns what is wrong with the index, by path; nothing if all is well. Raises StorageUnavailable.

    `rows` are all of the table. `swept` are the partitions whose sweep is scheduled, read after the rows, since a sweep
    is scheduled before a row is added. `report` is told now and then how far it is.
    """
    now, store = records.runtime.now(), records.index
    everything = list(rows)
    scheduled = {partition async for partition in swept}
    listed = {row.path: row.expires for row in everything if row.is_namespace}
    found: dict[str, list[Finding]] = {}
    for number, row in enumerate(everything):
        if number % PAGE == 0:
            report(f"{number:,} of {len(everything):,} rows of the index compared")
        namespace, name = split(row.path)
        key = keys.index_namespace(name) if row.is_namespace else keys.index_task(name)
        if (row.partition, row.key) != (keys.index_partition(namespace), key):
            found.setdefault(row.path, []).append(Finding("its row is not where its path is looked up"))
            continue
        if row.partition not in scheduled:
            scheduled.add(row.partition)
            found.setdefault(namespace or TOP, []).append(
                Finding("what expires there would never be deleted", _schedule_sweep(store, namespace))
            )
        over = is_over(row.expires, now)
        if over or not namespace or _covers(listed.get(namespace), row.expires):
            continue
        # Read one after the other while calls go on: what was read first may be listed by now.
        if not _covers(await store.listed_until(namespace), row.expires):
            found.setdefault(row.path, []).append(
                Finding(f"{namespace} is not listed for as long as it is there", _list_above(store, row))
            )
    return found


def _covers(listed_until: datetime | None, expires: datetime) -> bool:
    return listed_until is not None and listed_until >= expires


def _schedule_sweep(store: Index, namespace: str) -> Repair:
    async def repair() -> bool:
        await store.schedule_sweep(namespace)
        return True

    return repair


def _list_above(store: Index, row: IndexRow) -> Repair:
    async def repair() -> bool:
        for namespace, until in reversed(namespaces_above(row.path, row.expires)):  # not relying on the rows that exist
            await store.list_namespace(namespace, until, await store.namespace_row(namespace))
        return True

    return repair
