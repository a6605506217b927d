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


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """One entry of a routing key. `max_size` counts characters."""

    name: str
    summary: str
    max_size: int
    required: bool = True
    constant: str | None = None
    multiple_words: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeEntry:
    """An exchange as the reference describes it."""

    exchange: Exchange
    description: str
    routing_key: tuple[Word, ...]
    message: str = ""
    """What its schema is named after, if not the exchange."""

    @property
    def name(self) -> str:
        """As clients call it: `taskDefined` of `task-defined`."""
        first, *others = self.exchange.split("-")
        return first + "".join(map(str.capitalize, others))

    @property
    def title(self) -> str:
        """As upstream's reference has it."""
        words = self.exchange.replace("-", " ").title()
        return "Artifact Creation Messages" if self.exchange is Exchange.ARTIFACT_CREATED else f"{words} Messages"

    @property
    def schema(self) -> str:
        """Where the reference finds the schema of its messages."""
        return f"v1/{self.message or self.exchange.value}-message.json#"

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the routing key's words, in order."""
        return tuple(word.name for word in self.routing_key)


_KIND = Word(
    name="routingKeyKind",
    summary="Distinguishes the formalized key from custom routes: always `primary`.",
    max_size=len(PRIMARY),
    constant=PRIMARY,
)
_RESERVED = Word(
    name="reserved",
    summary="Room for future words: always match it with `#`.",
    max_size=1,
    required=False,
    multiple_words=True,
)


def _task_words(*, run: bool, worker: bool) -> tuple[Word, ...]:
    """The routing key of task messages; `run` and `worker` say whether those words are always given."""
    return (
        _KIND,
        Word(name="taskId", summary="`taskId` of the task that the message is about.", max_size=22),
        Word(name="runId", summary="`runId` of the run concerned, `_` if there is none.", max_size=3, required=run),
        Word(
            name="workerGroup",
            summary="`workerGroup` of the run concerned, `_` if no worker has it.",
            max_size=38,
            required=worker,
        ),
        Word(
            name="workerId",
            summary="`workerId` of the run concerned, `_` if no worker has it.",
            max_size=38,
            required=worker,
        ),
        Word(name="provisionerId", summary="`provisionerId` of the task's queue.", max_size=38),
        Word(name="workerType", summary="`workerType` of the task's queue.", max_size=38),
        Word(name="schedulerId", summary="`schedulerId` that the task was created with.", max_size=38),
        Word(name="taskGroupId", summary="`taskGroupId` of the group that the task is in.", max_size=22),
        _RESERVED,
    )


_GROUP_WORDS = (
    _KIND,
    Word(name="taskGroupId", summary="`taskGroupId` of the group that the message is about.", max_size=22),
    Word(name="schedulerId", summary="`schedulerId` of the group.", max_size=38),
    _RESERVED,
)
_NO_RUN = _task_words(run=False, worker=False)
_RUN = _task_words(run=True, worker=False)
_WORKER = _task_words(run=True, worker=True)

ENTRIES: tuple[ExchangeEntry, ...] = (
    ExchangeEntry(
        exchange=Exchange.TASK_DEFINED,
        description="A task was created. Its status is the first one, unscheduled, even if the task is pending by "
        "now: a task that waits for its dependencies is announced here before it is announced as pending.",
        routing_key=_NO_RUN,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_PENDING,
        description="A run of a task became pending: idle workers may claim it, and need not poll as often while "
        "they listen here.",
        routing_key=_RUN,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_RUNNING,
        description="A worker claimed a run. Renewing the claim is not announced.",
        routing_key=_WORKER,
    ),
    ExchangeEntry(
        exchange=Exchange.ARTIFACT_CREATED,
        description="An artifact of type `reference`, `link` or `error` was created, or one of type `object` was "
        "finished. Artifacts of type `s3` are not announced: index them when the task is completed.",
        routing_key=_WORKER,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_COMPLETED,
        description="A worker reported that the task succeeded. The key has the words of the run that did.",
        routing_key=_WORKER,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_FAILED,
        description="A worker reported that the task's own code failed, for example exited non-zero.",
        routing_key=_NO_RUN,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_EXCEPTION,
        description="A run ended in any other way: reported by its worker, canceled, its claim or the deadline "
        "expired. The reason is the run's `reasonResolved`; a retry appears as a further, pending run.",
        routing_key=_NO_RUN,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_GROUP_RESOLVED,
        description="Every task of the group has been resolved at least once. It may be sent again, after tasks "
        "were added to the group.",
        message="task-group-changed",
        routing_key=_GROUP_WORDS,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_GROUP_SEALED,
        description="The group was sealed: no task can be added to it any more.",
        message="task-group-changed",
        routing_key=_GROUP_WORDS,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_PRIORITY_CHANGED,
        description="The priority of an unresolved task was changed.",
        routing_key=_NO_RUN,
    ),
    ExchangeEntry(
        exchange=Exchange.TASK_GROUP_PRIORITY_CHANGED,
        description="The priority of a group's unresolved tasks was changed.",
        routing_key=_GROUP_WORDS,
    ),
)
"""In the order of `Exchange`."""

_BY_EXCHANGE = {entry.exchange: entry for entry in ENTRIES}


def entry_of(exchange: Exchange) -> ExchangeEntry:
    """The entry of an exchange."""
    return _BY_EXCHANGE[exchange]


def parse_exchange(name: str) -> Exchange:
    """An exchange by its short name, its full name or its name in the reference.

    Raises ValueError that lists the short names.
    """
    short = name.removeprefix(EXCHANGE_PREFIX)
    for entry in ENTRIES:
        if short in (entry.exchange.value, entry.name):
            return entry.exchange
    raise ValueError(f"there is no exchange {name!r}; the exchanges are {', '.join(TOPICS)}")
