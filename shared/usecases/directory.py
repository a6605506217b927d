"""Task queues, worker types and provisioners: listing and declaring (contract 8)."""

from __future__ import annotations

from shared.errors import InputError, ResourceNotFound
from shared.storage import keys
from shared.storage.directory import MOST_ACTIONS, Declaration, DirectoryStore, Entry, Kind, packed_actions
from shared.usecases.groups import page_start

Page = tuple[list[Entry], str | None]
"""Entries in the order of their ids, and the key at which the next page starts."""


class Directory:
    """What is listed: whatever was seen or declared, and has not expired. All raise StorageUnavailable."""

    def __init__(self, store: DirectoryStore) -> None:
        self._store = store

    async def task_queue(self, task_queue_id: str) -> Entry:
        """Raises ResourceNotFound."""
        return await self._known(Kind.TASK_QUEUE, task_queue_id)

    async def provisioner(self, provisioner_id: str) -> Entry:
        """Raises ResourceNotFound."""
        return await self._known(Kind.PROVISIONER, provisioner_id)

    async def actions(self, provisioner_id: str, context: str) -> list[dict[str, str]]:
        """The actions of a context that were declared with the provisioner."""
        entry = await self._store.entry(Kind.PROVISIONER, provisioner_id)
        return [] if entry is None else [action for action in entry.actions if action["context"] == context]

    async def task_queues(self, *, start: str, limit: int) -> Page:
        """A page of all task queues. Raises InputError."""
        return await self._page(Kind.TASK_QUEUE, keys.LISTED, start, limit)

    async def worker_types(self, provisioner_id: str, *, start: str, limit: int) -> Page:
        """A page of the task queues of a provisioner. Raises InputError."""
        return await self._page(Kind.TASK_QUEUE, keys.of_provisioner(provisioner_id), start, limit)

    async def provisioners(self, *, start: str, limit: int) -> Page:
        """A page of all provisioners. Raises InputError."""
        return await self._page(Kind.PROVISIONER, keys.LISTED, start, limit)

    async def declare_task_queue(self, task_queue_id: str, declaration: Declaration) -> Entry:
        """Makes or changes a task queue; its provisioner is listed as long as it is. Raises ServiceUnavailable."""
        entry = await self._store.declare(Kind.TASK_QUEUE, task_queue_id, declaration)
        provisioner_id = task_queue_id.split("/", 1)[0]
        await self._store.declare(Kind.PROVISIONER, provisioner_id, Declaration(expires=entry.expires))
        return entry

    async def declare_provisioner(self, provisioner_id: str, declaration: Declaration) -> Entry:
        """Makes or changes a provisioner. Raises InputError for too much to be stored, ServiceUnavailable."""
        if len(packed_actions(declaration.actions or ())) > MOST_ACTIONS:
            raise InputError(f"the actions must not have more than {MOST_ACTIONS} characters as JSON")
        return await self._store.declare(Kind.PROVISIONER, provisioner_id, declaration)

    async def _known(self, kind: Kind, name: str) -> Entry:
        entry = await self._store.entry(kind, name)
        if entry is None:
            raise ResourceNotFound(f"{name} is not known")
        return entry

    async def _page(self, kind: Kind, within: tuple[str, str], start: str, limit: int) -> Page:
        first = page_start(start, within)
        return ([], None) if limit == 0 else await self._store.page(kind, first, within[1], limit)
