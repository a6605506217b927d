"""Tables, their partition and row keys (names escaped, long ones hashed), and the blob paths of artifacts (design 3).

Row keys of one kind are neighbours, so a range query reads them. Names of artifacts may hold forbidden characters and
be longer than keys. So a key has the name escaped, in a way that keeps the order of names, cut to a length, and a hash
of the whole name. Names that agree in their first some 230 to 460 characters are listed in the order of their hashes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from shared.base.dates import format_date
from shared.base.ids import digest_of
from shared.base.types import PUBLIC_PREFIX

TASKS = "Tasks"
GROUPS = "Groups"
POOLS = "Pools"
DIRECTORY = "Directory"
EXPIRY = "Expiry"
INDEX = "Index"
HEALTH = "Health"
AUDIT = "Audit"

TASK_DEFINITION = "task.definition"
TASK_OPEN = "task.open"
TASK_STATUS = "task.status"
TASK_ROWS = ("task.", "task/")
"""The range of the three rows that make a task; nothing else lies in it."""
REST_OF_DEFINITION = ("task~", "task~~")
"""The range of the rows of a large definition."""
WHOLE_TASK = (TASK_ROWS[0], REST_OF_DEFINITION[1])

GROUP = "group"
POOL = "pool"
PROVISIONER = "provisioner"


def rest_of_definition(number: int) -> str:
    """Returns the key of a further row of a large definition, counted from 0."""
    return f"{REST_OF_DEFINITION[0]}{number}"


def upload(run_id: int) -> str:
    """Returns the key of the guard row that exists from the claim to the resolution of the run."""
    return f"upload~{run_id:04d}"


UPLOADS = ("upload~", "upload\x7f")


def dependent(task_id: str) -> str:
    """Returns the key of an edge in the partition of the required task, which names a dependent of another group."""
    return f"dependent~{task_id}"


DEPENDENTS = ("dependent~", "dependent\x7f")


def unblocks(required: str, dependent: str) -> str:
    """Returns the key of an edge in the group of two tasks: "the one unblocks the other". It sorts after the group's
    header, so that it does not lie in the range of a check (`ACTIVE_AND_GROUP`)."""
    return f"{unblocked(required)[0]}{dependent}"


def unblocked(required: str) -> tuple[str, str]:
    """Returns the range of edges out of a task in its group."""
    return f"{UNBLOCKS}{required}~", f"{UNBLOCKS}{required}\x7f"


def required_of(edge: str) -> str:
    """Returns the task that an edge in a group goes out of."""
    return edge.split("~")[1]


UNBLOCKS = "unblocks~"
"""Prefix of the keys of edges in a group."""


def dependent_of(edge: str) -> str:
    """Returns the dependent that an edge of either kind names."""
    return edge.rpartition("~")[2]


def scheduler(scheduler_id: str, number: int) -> str:
    """Returns the key of the guard row that a group has while it has this scheduler and number and is not sealed."""
    return f"{SCHEDULERS[0]}{scheduler_id}~{number:08d}"


SCHEDULERS = ("scheduler~", "scheduler\x7f")


def number(count: int) -> str:
    """Returns the key of the guard row that exists while so many calls were made on the whole group."""
    return f"number~{count:08d}"


GROUP_GUARDS = ("number~", "scheduler\x7f")
"""The range of both kinds of a group's guards; nothing else lies in it."""


def member(task_id: str) -> str:
    """Returns the key of the row of a task in its group, with what listing it needs."""
    return f"member~{task_id}"


MEMBERS = ("member~", "member\x7f")
GROUP_AND_MEMBERS = ("due", "scheduler\x7f")
"""The range of what is due in the group, its header, its members, and its guards."""
GROUP_TO_MEMBERS = ("group", MEMBERS[1])
"""The header and the members: the first rows tell whether the group has one task."""


def task_of(member: str) -> str:
    """Returns the id of the task that a member row is about."""
    return member.partition("~")[2]


def actives(task_id: str) -> tuple[str, str]:
    """Returns the range of a task's active rows, of all its generations."""
    return f"active~{task_id}~", f"active~{task_id}\x7f"


def active(task_id: str, generation: int) -> str:
    """Returns the key of the row of an unresolved task in its group."""
    return f"active~{task_id}~{generation:04d}"


ACTIVE = ("active~", "active\x7f")
DUE = "due"
"""Row that names the resolution whose group has yet to be checked. Every resolution changes it, unlike the header."""
ACTIVE_AND_GROUP = ("active~", f"{GROUP} ")
"""The range of every active row, then what is due, then the group's header."""


def pool(task_queue_id: str) -> str:
    """Returns the partition of a pool: the slash of the taskQueueId is not allowed in keys."""
    return task_queue_id.replace("/", "~")


class _PoolRow(Protocol):
    """The properties of a run that make the key of its index row."""

    @property
    def scheduled(self) -> datetime: ...
    @property
    def started(self) -> datetime | None: ...
    @property
    def task_id(self) -> str: ...
    @property
    def run_id(self) -> int: ...


def pending(row: _PoolRow) -> str:
    """Returns the key of the index row of a pending run, in the order in which runs were scheduled."""
    return f"pending~{format_date(row.scheduled)}~{row.task_id}~{row.run_id:04d}"


def claimed(row: _PoolRow) -> str:
    """Returns the key of the index row of a running run, in the order of claims."""
    assert row.started is not None, "a claimed run has started"
    return f"claimed~{format_date(row.started)}~{row.task_id}~{row.run_id:04d}"


PENDING = ("pending~", "pending\x7f")
CLAIMED = ("claimed~", "claimed\x7f")
RETURNED = "returned"
"""Row of a pool whose ETag changes in each transaction in which a run that was claimed may become pending again."""
CLAIMED_AND_PENDING = (CLAIMED[0], PENDING[1])
"""The range of every index row of the pool, and nothing else."""


def indexed_since(moment: datetime) -> tuple[str, str]:
    """Returns two keys: the first for index rows of pending runs that were scheduled at that moment or later, and the
    first for those of runs that were claimed then or later."""
    return f"{PENDING[0]}{format_date(moment)}", f"{CLAIMED[0]}{format_date(moment)}"


def worker(worker_group: str, worker_id: str) -> str:
    """Returns the key of a worker of the pool, with its recent tasks."""
    return f"worker~{worker_group}~{worker_id}"


WORKERS = ("worker~", "worker\x7f")


def quarantine(worker_group: str, worker_id: str, moment: datetime, slugid: str) -> str:
    """Returns the key of one entry of a worker's quarantine history; the latest comes first."""
    return f"{quarantines(worker_group, worker_id)[0]}{_latest_first(moment)}~{slugid}"


def quarantines(worker_group: str, worker_id: str) -> tuple[str, str]:
    """Returns the range of a worker's quarantine history."""
    prefix = f"quarantine~{worker_group}~{worker_id}"
    return f"{prefix}~", f"{prefix}\x7f"


def listed(name: str) -> str:
    """Returns the key of the row of a task queue or a provisioner in the directory: a dot sorts among the characters of
    ids as the slash does, so listings are in the order of ids."""
    return name.replace("/", ".")


def of_provisioner(provisioner_id: str) -> tuple[str, str]:
    """Returns the range of a provisioner's task queues in the directory."""
    return f"{provisioner_id}.", f"{provisioner_id}.\x7f"


LISTED = ("", "\x7f")
CHECKED = "checked"
"""Partition of the directory, and its only row, which says where the next check of all pools begins."""


def created_group(moment: datetime, slugid: str) -> str:
    """Returns the key of a task group in the list of groups, of which the latest comes first. `slugid` gives each call
    that creates a group a row of its own, so that its roll-back cannot remove another call's row."""
    return f"{_latest_first(moment)}~{slugid}"


CREATED_GROUPS = ("0", "\x7f")
"""The range of task groups in the partition of the directory that lists them."""


def _latest_first(moment: datetime) -> str:
    return f"{10**15 - int(moment.timestamp() * 1000):015d}"


AUDITED_GROUP = "task-group"
AUDITED_BY = "by-client"
"""Name of the history of what a client did."""
AUDIT_SWEEP = "audit"
"""The kind of expiry row that is about a history."""


def audit(kind: str, name: str) -> str:
    """Returns the partition of a history: hashed, since a name may hold what keys forbid."""
    return f"{kind}-{digest_of(name)}"


def audited(moment: datetime, slugid: str) -> str:
    """Returns the key of an entry of a history, of which the latest comes first."""
    return f"{_latest_first(moment)}~{slugid}"


def audited_before(moment: datetime) -> str:
    """Returns the key at which the entries of a history begin that are older than the moment."""
    return f"{_latest_first(moment)}\x7f"


def hour(moment: datetime) -> str:
    """Returns the expiry bucket that covers the moment."""
    return f"{moment:%Y-%m-%dT%H}"


def expiring(kind: str, *words: str) -> str:
    """Returns the key, within its bucket, of the row of something to delete."""
    return "~".join((kind, *words))


SWEPT_GROUP = "group-tasks"
"""The kind of expiry row that is about a group and its tasks."""

PRIVATE = "artifacts"
PUBLIC = "public-artifacts"
"""Container of artifacts named `public/…`, which can be made public as a whole."""

_LONGEST = 460
"""The most characters of an escaped name in a key; a key has 512."""

# A character that keys forbid, or that is known for trouble in them, becomes its neighbour and a digit; so does the
# neighbour. The space is escaped since it marks the end of the name: it sorts before everything else that may follow.
_ESCAPES = str.maketrans(
    {
        " ": "!0",
        "!": "!1",
        '"': '"0',
        "#": '"1',
        "$": "$0",
        "%": "$1",
        "*": "*0",
        "+": "*1",
        ".": ".0",
        "/": ".1",
        ">": ">0",
        "?": ">1",
        "[": "[0",
        "\\": "[1",
    }
)


def artifact(run_id: int, name: str) -> str:
    """Returns the key of the row of an artifact. `name` is printable ASCII."""
    return f"artifact~{run_id:04d}~{name.translate(_ESCAPES)[:_LONGEST]} {digest_of(name)}"


def artifacts(run_id: int) -> tuple[str, str]:
    """Returns the range of a run's artifacts."""
    prefix = f"artifact~{run_id:04d}"
    return f"{prefix}~", f"{prefix}\x7f"


ARTIFACTS = ("artifact~", "artifact\x7f")
"""The range of all runs' artifacts."""

EXCHANGED = "idToken"
"""The kind of expiry row that records that an ID token was exchanged. Nothing else is stored of the token."""
INDEX_SWEEP = "index"
"""The kind of expiry row that is about a namespace of the index."""
INDEX_TASKS = ("task~", "task\x7f")
INDEX_NAMESPACES = ("namespace~", "namespace\x7f")


def index_partition(namespace: str) -> str:
    """Returns the partition of a namespace of the index: hashed, since a path may hold what keys forbid."""
    return digest_of(namespace)


def index_task(name: str) -> str:
    """Returns the key of an entry of the index."""
    return f"{INDEX_TASKS[0]}{_index_name(name)}"


def index_namespace(name: str) -> str:
    """Returns the key of the row of a namespace of the index, in the partition of its parent namespace."""
    return f"{INDEX_NAMESPACES[0]}{_index_name(name)}"


def _index_name(name: str) -> str:
    """Returns a key that sorts in the order of names; one that would be too long is cut, and ends with a hash."""
    escaped = name.translate(_ESCAPES)
    return escaped if len(escaped) <= _LONGEST else f"{escaped[:_LONGEST]} {digest_of(name)}"


STRAYS = "artifact.strays"
"""Row that marks a task as possibly having blobs that no row names: a call or job died while it replaced or deleted the
content of an artifact."""


def direct(run_id: int, name: str) -> str:
    """Returns the key of the row of an upload whose block is to be committed."""
    return f"direct~{run_id:04d}~{digest_of(name)}"


EDGES_AND_UPLOADS = ("dependent~", "direct\x7f")
"""The range of the edges of a task, then its uploads to commit. A resolution reads this range."""
IS_UPLOAD = "direct~"
EDGES_TO_STATUS = (DEPENDENTS[0], f"{TASK_STATUS} ")
"""The range of edges, uploads, and the rows that make the task. Read in one request, all of it is of one moment."""


def container(name: str) -> str:
    """Returns the name of the container of an artifact's blob."""
    return PUBLIC if name.startswith(PUBLIC_PREFIX) else PRIVATE


def path(task_id: str, run_id: int, name: str, version: str = "") -> str:
    """Returns the path of the blob of an artifact's version; without one, what all their paths begin with."""
    return f"{task_id}/{run_id}/{digest_of(name)}.{version}"


def paths(task_id: str) -> str:
    """Returns the prefix of the paths of all blobs of a task."""
    return f"{task_id}/"
