"""Many tasks in one call: definitions, statuses, dependents (contract 2.4)."""

from __future__ import annotations

from collections.abc import Sequence

from shared.concurrency import in_waves
from shared.domain.definition import Json
from shared.errors import ResourceNotFound
from shared.storage import keys
from shared.usecases.executor import Stores
from shared.usecases.groups import READS, Listed, ListedTasks, page_start


class Batches:
    """Reads many tasks, some in parallel; the unknown ones are left out."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def definitions(self, task_ids: Sequence[str]) -> list[tuple[str, Json]]:
        """Definitions, with the priority that each task has by now."""
        loaded = await in_waves(READS, self._stores.tasks.load, dict.fromkeys(task_ids))
        return [(one.task.task_id, one.definition.at_priority(one.task.priority)) for one in loaded if one]

    async def statuses(self, task_ids: Sequence[str]) -> list[tuple[str, Json]]:
        """Statuses."""
        tasks = await in_waves(READS, self._stores.tasks.status, dict.fromkeys(task_ids))
        return [(task.task_id, task.as_json()) for task in tasks if task]

    async def dependents(self, task_id: str, *, start: str, limit: int) -> ListedTasks:
        """A page of the tasks that wait, or waited, for this one, in the order of taskId.

        Raises ResourceNotFound, InputError for a start outside of the listing.
        """
        first = page_start(start, keys.DEPENDENTS)
        if await self._stores.tasks.status(task_id) is None:
            raise ResourceNotFound(f"task {task_id} does not exist")
        if limit == 0:
            return ListedTasks(tasks=[], resume=None)
        edges, resume = await self._stores.tasks.edges(task_id, start=first, limit=limit)
        dependents = [edge.key.partition("~")[2] for edge in edges]
        listed = await in_waves(READS, lambda dependent: self._dependent(task_id, dependent), dependents)
        return ListedTasks(tasks=[each for each in listed if each is not None], resume=resume)

    async def _dependent(self, required: str, task_id: str) -> Listed | None:
        """An edge counts only if the dependent's definition lists the task (design 5)."""
        loaded = await self._stores.tasks.load(task_id)
        if loaded is None or required not in loaded.definition.dependency_index:
            return None
        definition = loaded.definition.at_priority(loaded.task.priority)
        return Listed(definition=definition, status=loaded.task.as_json())
