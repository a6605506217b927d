"""A task's definition: immutable from its creation on (contract 3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, cast

from shared.domain.dates import parse_date
from shared.domain.priority import Priority
from shared.frozen import dataclass
from shared.jsontext import in_javascript

Json = Mapping[str, Any]
"""A JSON object as parsed."""


class Requires(StrEnum):
    """Which ends of its dependencies satisfy a task."""

    ALL_COMPLETED = "all-completed"
    ALL_RESOLVED = "all-resolved"


@dataclass(frozen=True)
class Definition:
    """What createTask was given, with every default filled in and every date normalised (contract 3.1).

    `body` is the object that the `task` endpoint returns, except that its priority is the one at creation.
    """

    task_id: str
    body: Json

    @cached_property
    def task_queue_id(self) -> str:
        return str(self.body["taskQueueId"])

    @property
    def scheduler_id(self) -> str:
        return str(self.body["schedulerId"])

    @property
    def project_id(self) -> str:
        return str(self.body["projectId"])

    @property
    def task_group_id(self) -> str:
        return str(self.body["taskGroupId"])

    @cached_property
    def dependencies(self) -> tuple[str, ...]:
        return tuple(self.body["dependencies"])

    @cached_property
    def dependency_index(self) -> Mapping[str, int]:
        """Position of each dependency: the bit that stands for it in the satisfied set."""
        return {task_id: index for index, task_id in enumerate(self.dependencies)}

    @property
    def requires_completed(self) -> bool:
        """Whether only completed dependencies satisfy (`all-completed`), or resolved ones as well."""
        return bool(self.body["requires"] == Requires.ALL_COMPLETED)

    @property
    def routes(self) -> tuple[str, ...]:
        return tuple(self.body["routes"])

    @property
    def priority(self) -> Priority:
        return cast("Priority", self.body["priority"])

    @property
    def retries(self) -> int:
        return int(self.body["retries"])

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(self.body["scopes"])

    @property
    def tags(self) -> Json:
        return cast("Json", self.body["tags"])

    @cached_property
    def created(self) -> datetime:
        return parse_date(self.body["created"])

    @cached_property
    def deadline(self) -> datetime:
        return parse_date(self.body["deadline"])

    @cached_property
    def expires(self) -> datetime:
        return parse_date(self.body["expires"])

    def at_priority(self, priority: Priority) -> Json:
        """The definition as it reads after priority changes."""
        return self.body if priority == self.priority else {**self.body, "priority": priority}


def same_json(left: Any, right: Any) -> bool:
    """Deep equality of JSON values (contract 3.5): numbers as JavaScript's, none equal to a boolean (trap 24)."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same_json(value, right[name]) for name, value in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same_json, left, right))
    if left == right:
        return isinstance(left, bool) == isinstance(right, bool)
    # Definitions that older versions stored have numbers as they were sent.
    return _is_number(left) and _is_number(right) and bool(in_javascript(left) == in_javascript(right))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
