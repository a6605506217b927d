"""The task groups that were created last (contract 2.5)."""

from __future__ import annotations

from shared.frozen import dataclass
from shared.storage import keys
from shared.storage.group_rows import Group
from shared.storage.groups import GroupStore
from shared.storage.recent_groups import CreatedGroup, RecentGroupStore
from shared.usecases.groups import page_start
from shared.usecases.pages import Lookups

MOST = 100
"""Groups on a page: each costs a read of its header, with its expiration and its seal, and of the rows behind it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecentGroup:
    """A group as it is now, and as its first task described it."""

    created: CreatedGroup
    header: Group
    is_single: bool
    """Whether it has one task."""


class RecentGroups:
    """Lists task groups."""

    def __init__(self, groups: GroupStore, recent: RecentGroupStore, lookups: Lookups) -> None:
        self._lookups = lookups
        self._groups = groups
        self._recent = recent

    async def page(self, *, start: str, limit: int) -> tuple[list[RecentGroup], str | None]:
        """A page of at most MOST groups, latest first, and the key at which the next one starts.

        Groups that never came to be are left out, so a page may be short. Raises InputError for a start outside of the
        listing, StorageUnavailable, ServiceUnavailable when too many lists are read.
        """
        first = page_start(start, keys.CREATED_GROUPS)
        if limit == 0:
            return [], None
        created, resume = await self._recent.page(first, min(limit, MOST))
        found = await self._lookups.each(self._find, created)
        return [group for group in found if group is not None], resume

    async def _find(self, created: CreatedGroup) -> RecentGroup | None:
        header, is_single = await self._groups.header_and_whether_single(created.task_group_id)
        if header is None or header.listed != created.key:
            return None
        return RecentGroup(created=created, header=header, is_single=is_single)
