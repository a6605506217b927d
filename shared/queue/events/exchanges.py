"""The exchanges, each a Service Bus topic: the one list behind topics, routing keys and reference (contract 10)."""

from __future__ import annotations

from shared.base.frozen import dataclass
from shared.queue.events.rules import Exchange

EXCHANGE_PREFIX = "exchange/taskcluster-queue/v1/"
"""What clients put before an exchange's short name."""
TOPICS: tuple[str, ...] = tuple(exchange.value for exchange in Exchange)
"""The topics' names, without the deployment's prefix."""
PRIMARY = "primary"
"""The first word of every primary routing key."""
NO_WORD = "_"
"""Stands for an optional word that is absent."""


@dataclass(frozen=True, slots=True)
class Word:
    """One entry of a routing key. `max_size` counts characters."""

    name: str
    summary: str
    max_size: int
    required: bool = True
    constant: str | None = None
    multiple_words: bool = False


@dataclass(frozen=True, slots=True)
class ExchangeEntry:
    """An exchange as the reference describes it."""

    exchange: Exchange
    description: str
    routing_key: tuple[Word, ...]
    message: str = ""
    """The name of the message that the schema is named after, if it differs from the exchange's."""

    @property
    def name(self) -> str:
        """The name that clients use: `taskDefined` for `task-defined`."""
        first, *others = self.exchange.split("-")
        return first + "".join(map(str.capitalize, others))

    @property
    def title(self) -> str:
        """The title in upstream's reference."""
        words = self.exchange.replace("-", " ").title()
        return "Artifact Creation Messages" if self.exchange is Exchange.ARTIFACT_CREATED else f"{words} Messages"

    @property
    def schema(self) -> str:
        """Path of the schema of the exchange's messages, as the reference states it."""
        return f"v1/{self.message or self.exchange.value}-message.json#"

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the routing key's words, in order."""
        return tuple(word.name for word in self.routing_key)


_KIND = Word(
    "routingKeyKind",
    "Distinguishes the formalized key from custom routes: always `primary`.",
    len(PRIMARY),
    constant=PRIMARY,
)
_RESERVED = Word("reserved", "Room for future words: always match it with `#`.", 1, required=False, multiple_words=True)


def _task_words(*, run: bool, worker: bool) -> tuple[Word, ...]:
    """Returns the routing key of task messages; `run` and `worker` say whether those words are always given."""
    return (
        _KIND,
        Word("taskId", "`taskId` of the task that the message is about.", 22),
        Word("runId", "`runId` of the run concerned, `_` if there is none.", 3, required=run),
        Word("workerGroup", "`workerGroup` of the run concerned, `_` if no worker has it.", 38, required=worker),
        Word("workerId", "`workerId` of the run concerned, `_` if no worker has it.", 38, required=worker),
        Word("provisionerId", "`provisionerId` of the task's queue.", 38),
        Word("workerType", "`workerType` of the task's queue.", 38),
        Word("schedulerId", "`schedulerId` that the task was created with.", 38),
        Word("taskGroupId", "`taskGroupId` of the group that the task is in.", 22),
        _RESERVED,
    )


_GROUP_WORDS = (
    _KIND,
    Word("taskGroupId", "`taskGroupId` of the group that the message is about.", 22),
    Word("schedulerId", "`schedulerId` of the group.", 38),
    _RESERVED,
)
_NO_RUN = _task_words(run=False, worker=False)
_RUN = _task_words(run=True, worker=False)
_WORKER = _task_words(run=True, worker=True)
ENTRIES: tuple[ExchangeEntry, ...] = (
    ExchangeEntry(
        Exchange.TASK_DEFINED,
        "A task was created. Its status is the first one, unscheduled, even if the task is pending by "
        "now: a task that waits for its dependencies is announced here before it is announced as pending.",
        _NO_RUN,
    ),
    ExchangeEntry(
        Exchange.TASK_PENDING,
        "A run of a task became pending: idle workers may claim it, and need not poll as often while they listen here.",
        _RUN,
    ),
    ExchangeEntry(Exchange.TASK_RUNNING, "A worker claimed a run. Renewing the claim is not announced.", _WORKER),
    ExchangeEntry(
        Exchange.ARTIFACT_CREATED,
        "An artifact of type `reference`, `link` or `error` was created, or one of type `object` was "
        "finished. Artifacts of type `s3` are not announced: index them when the task is completed.",
        _WORKER,
    ),
    ExchangeEntry(
        Exchange.TASK_COMPLETED,
        "A worker reported that the task succeeded. The key has the words of the run that did.",
        _WORKER,
    ),
    ExchangeEntry(
        Exchange.TASK_FAILED, "A worker reported that the task's own code failed, for example exited non-zero.", _NO_RUN
    ),
    ExchangeEntry(
        Exchange.TASK_EXCEPTION,
        "A run ended in any other way: reported by its worker, canceled, its claim or the deadline "
        "expired. The reason is the run's `reasonResolved`; a retry appears as a further, pending run.",
        _NO_RUN,
    ),
    ExchangeEntry(
        Exchange.TASK_GROUP_RESOLVED,
        "Every task of the group has been resolved at least once. It may be sent again, after tasks "
        "were added to the group.",
        _GROUP_WORDS,
        message="task-group-changed",
    ),
    ExchangeEntry(
        Exchange.TASK_GROUP_SEALED,
        "The group was sealed: no task can be added to it any more.",
        _GROUP_WORDS,
        message="task-group-changed",
    ),
    ExchangeEntry(Exchange.TASK_PRIORITY_CHANGED, "The priority of an unresolved task was changed.", _NO_RUN),
    ExchangeEntry(
        Exchange.TASK_GROUP_PRIORITY_CHANGED, "The priority of a group's unresolved tasks was changed.", _GROUP_WORDS
    ),
)
"""The exchanges, in the order of `Exchange`."""
