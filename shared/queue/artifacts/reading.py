"""Finding artifacts, and where their content can be read (contract 7.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY
from datetime import datetime, timedelta
from urllib.parse import quote

from shared.base.concurrency import both
from shared.base.errors import InputError, ResourceExpired, ResourceNotFound
from shared.base.frozen import dataclass
from shared.base.protocol import SIGNED_URL_CLOCK_SKEW
from shared.queue.artifacts import rules
from shared.queue.artifacts.rows import ArtifactStore, Stored
from shared.queue.artifacts.rules import Artifact, StorageType
from shared.queue.artifacts.uploads import Uploads
from shared.queue.tasks.rows import TaskStore
from shared.queue.tasks.rules import Task
from shared.runtime import Runtime
from shared.store import keys
from shared.store.interface import Access

LIFE = timedelta(minutes=30)
"""Life of the signed URLs. Azure judges a request by when it begins, so a long reading is not cut off."""
MOST_LINKS = 50
"""The most links that are followed one after the other."""
Authorise = Callable[[Sequence[str]], Awaitable[None]]
"""Function that raises InsufficientScopes unless the caller may get artifacts of all these names."""


@dataclass(eq=False, repr=False)
class Reading:
    """Reads artifacts, and signs URLs for their content."""

    _tasks: TaskStore
    _artifacts: ArtifactStore
    _uploads: Uploads
    _access: Access
    _runtime: Runtime
    _: KW_ONLY
    public_base_url: str | None
    """The URL at which `public/` content can be read without a signed URL, if any."""

    def __post_init__(self) -> None:
        self._now = self._runtime.now
        self.public_base_url = None if self.public_base_url is None else self.public_base_url.rstrip("/")

    async def find(self, task_id: str, run_id: int, name: str, authorise: Authorise) -> Stored:
        """Returns an artifact that may be read now, links followed. The caller is authorised for `name` already. Raises
        ResourceNotFound, ResourceExpired, InputError for a cycle of links, and what `authorise` raises."""
        return await self._follow(await self._artifacts.read_one(task_id, run_id, name), name, authorise)

    async def find_latest(self, task_id: str, name: str, authorise: Authorise) -> Stored:
        """Finds an artifact as `find` does, in the task's last run. Mostly that is run 0, read beside the task."""
        task, stored = await both(self._tasks.status(task_id), self._artifacts.read_one(task_id, 0, name))
        run_id = last_run(task, task_id)
        if run_id > 0:
            stored = await self._artifacts.read_one(task_id, run_id, name)
        return await self._follow(stored, name, authorise)

    async def last_run(self, task_id: str) -> int:
        """Returns the number of a task's last run. Raises ResourceNotFound."""
        return last_run(await self._tasks.status(task_id), task_id)

    async def info(self, task_id: str, run_id: int, name: str) -> Artifact:
        """Returns what is known of an artifact, expired or not; links are not followed. Raises ResourceNotFound."""
        stored = await self._artifacts.read_one(task_id, run_id, name)
        if stored is None or stored.artifact.is_hidden:
            raise _no_such(name)
        return stored.artifact

    async def artifact_page(
        self, task_id: str, run_id: int | None, *, start: str, limit: int
    ) -> tuple[list[Artifact], str | None]:
        """Returns a page of a run's artifacts (None: the last run), by name, and where the next starts. Raises
        ResourceNotFound."""
        if run_id is None:
            return await self._page_of(task_id, await self.last_run(task_id), start, limit)
        last, page = await both(self.last_run(task_id), self._page_of(task_id, run_id, start, limit))
        if run_id > last:
            raise ResourceNotFound(f"task {task_id} has no run {run_id}")
        return page

    async def _page_of(self, task_id: str, run_id: int, start: str, limit: int) -> tuple[list[Artifact], str | None]:
        return ([], None) if limit == 0 else await self._artifacts.run_page(task_id, run_id, start, limit)

    async def url(self, stored: Stored) -> str:
        """Returns the URL of the content. Raises ResourceNotFound if it was not uploaded yet."""
        artifact = stored.artifact
        if artifact.storage_type is StorageType.REFERENCE:
            return str(artifact.details["url"])
        settled = await self._uploads.settled(stored)
        if settled is None:
            raise ResourceNotFound(f"the content of {artifact.name} has not been uploaded")
        if self.public_base_url is not None and stored.container == keys.PUBLIC:
            return f"{self.public_base_url}/{quote(stored.path)}"
        start, expiry = self.window()
        return await self._access.read_blob(
            stored.container,
            stored.path,
            start=start,
            expiry=expiry,
            content_type=rules.as_header(settled.content_type, rules.OPAQUE),
            content_disposition=rules.disposition(settled.name),
        )

    def window(self) -> tuple[datetime, datetime]:
        """Returns from when to when a URL that is made now is valid."""
        now = self._now().replace(microsecond=0)
        return now - SIGNED_URL_CLOCK_SKEW, now + LIFE

    async def _follow(self, stored: Stored | None, name: str, authorise: Authorise) -> Stored:
        visited = [name]
        while True:
            if stored is None or stored.artifact.is_hidden:
                raise _no_such(visited[-1])
            if stored.artifact.expires < self._now():
                raise ResourceExpired(f"artifact {visited[-1]} has expired")
            if stored.artifact.storage_type is not StorageType.LINK:
                return stored
            target = str(stored.artifact.details["artifact"])
            if target in visited:
                raise InputError(f"the links from {name} lead in a circle")
            if len(visited) > MOST_LINKS:
                raise InputError(f"more than {MOST_LINKS} links lead on from {name}")
            visited.append(target)
            await authorise(visited)
            if not (target.isascii() and target.isprintable()):  # no artifact can have this name
                raise _no_such(target)
            stored = await self._artifacts.read_one(stored.task_id, stored.run_id, target)


def last_run(task: Task | None, task_id: str) -> int:
    """Returns the number of a task's last run. Raises ResourceNotFound for a task that does not exist or has none."""
    if task is None:
        raise ResourceNotFound(f"task {task_id} does not exist")
    if not task.runs:
        raise ResourceNotFound(f"task {task_id} has no runs")
    return task.last_run_id


def _no_such(name: str) -> ResourceNotFound:
    return ResourceNotFound(f"there is no artifact {name}")
