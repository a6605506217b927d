"""Everything that a process remembers: how much, how old it may be, and why. Design 2.8 has it as a table.

Written there by `python -m tools.local.design_tables`.
"""

from __future__ import annotations

from datetime import timedelta

from shared.base.memo import Remembered

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

CLIENTS = Remembered(
    name="auth/keyring.client",
    what="a client, or that there is none of this name",
    capacity=2000,
    fresh=_MINUTE,
    absent=timedelta(seconds=5),
    because="how late other processes see a change; one that does not exist may just be created",
)
ROLES = Remembered(
    name="auth/keyring.roles",
    what="all roles, with expansions of scopes",
    capacity=1,
    fresh=_MINUTE,
    because="how late other processes see a change",
)
STATUSES = Remembered(
    name="tasks/known.statuses",
    what="the status of a task, and the ETags of rows that vouch for it",
    capacity=20_000,
    because="shown for a second, longer while the rows are unchanged ([11](#design-11))",
)
COMMITTED = Remembered(
    name="tasks/known.committed",
    what="an unresolved task as this process has committed it last",
    capacity=5000,
    because="2 KB each; a commit holds only on that version",
)
DEPENDENCIES = Remembered(
    name="tasks/known.dependencies",
    what="the group and the end of a task that others may depend on",
    capacity=100_000,
    because="never changes; 10,000 dependencies of ten new tasks",
)
GROUPS = Remembered(
    name="groups/store.headers",
    what="a group's header as it was seen last",
    capacity=10_000,
    because="guard rows refuse what is wrong; a group never ends earlier",
)
SWEEPS = Remembered(
    name="groups/membership.sweeps",
    what="sweeps of groups that are scheduled",
    capacity=10_000,
    because="one that is scheduled stays",
)
UNRESOLVED = Remembered(
    name="groups/check.unresolved",
    what="the row that has ended the latest check of a group",
    capacity=10_000,
    because="compared with the row by its ETag",
)
GROUP_LOOKS = Remembered(
    name="groups/check.looks",
    what="whether a group has active tasks",
    capacity=0,
    because="not older than the question",
)
GROUP_LISTS = Remembered(
    name="groups/listing.lists", what="a page of a group's tasks", capacity=0, because="not older than the question"
)
POOL_READINGS = Remembered(
    name="pools/index.readings",
    what="which runs of a pool have index rows",
    capacity=0,
    because="not older than the question; that of a large pool is kept for a second besides",
)
VOUCHERS = Remembered(
    name="groups/statuses.pools",
    what="what was read of a pool's index to vouch for statuses",
    capacity=1000,
    because="its own age is looked at: a second",
)
SENT = Remembered(
    name="events/announcer.sent",
    what="MessageIds of events that were sent, or kept a pointer to",
    capacity=20_000,
    because="one that is sent again is recognised by the topic",
)
WORKERS = Remembered(
    name="pools/worker_rows.known",
    what="a worker's row",
    capacity=20_000,
    fresh=timedelta(seconds=30),
    because="how late a quarantine is seen",
)
DIRECTORY = Remembered(
    name="pools/directory.fresh",
    what="when a row of the directory was written last",
    capacity=20_000,
    because="it says itself how old it is",
)
BANDS = Remembered(
    name="pools/queues.bands",
    what="a pool's bands in use",
    capacity=10_000,
    fresh=timedelta(seconds=10),
    because="how late a poller sees a new band",
)
BAND_QUEUES = Remembered(
    name="pools/queues.made",
    what="a band whose queue exists",
    capacity=70_000,
    fresh=_HOUR,
    because="10,000 pools; queues of a pool that was not used for weeks are deleted in two steps, a day apart",
)
ALL_QUEUES = Remembered(
    name="pools/queues.all_made",
    what="a pool of which all seven queues exist",
    capacity=10_000,
    fresh=_HOUR,
    because="likewise",
)
STARVING = Remembered(
    name="claims/polling.starving",
    what="the bands of a pool that have waited too long",
    capacity=10_000,
    fresh=timedelta(seconds=10),
    because="as old as the bands in use",
)
TOLD = Remembered(
    name="claims/telling.last",
    what="how a worker was told that there is work, if by 503",
    capacity=10_000,
    fresh=_HOUR,
    because="forgetting it costs a client that does not repeat calls two pauses",
)
QUIET = Remembered(
    name="claims/polling.quiet",
    what="since when a pool that was polled lately has had no work",
    capacity=10_000,
    fresh=timedelta(seconds=15),
    because="workers call again within seconds, or had work; forgetting it makes the next calls look more often",
)
POLL_URLS = Remembered(
    name="claims/poll_urls.given",
    what="when sets of URLs end that were given out, for a count",
    capacity=1000,
    because="a metric, of task queues that are polled by URLs; 10,000 sets of each",
)
VAIN = Remembered(
    name="claims/poll_urls.pools",
    what="vain requests for work in a pool",
    capacity=10_000,
    because="advice only; forgetting it makes workers ask sooner",
)
CHECKED = Remembered(
    name="tasks/reconciler.checked",
    what="a pool whose oldest rows were checked",
    capacity=10_000,
    fresh=_MINUTE,
    because="how often a pool that is polled in vain is checked",
)
CLAIMED_CHECKED = Remembered(
    name="tasks/reconciler.claimed_checked",
    what="a pool whose claimed rows were checked",
    capacity=10_000,
    fresh=_HOUR,
    because="how often overdue claims are looked for, besides their timers",
)
IN_USE = Remembered(
    name="tasks/reconciler.in_use",
    what="until when a pool's queues need no look",
    capacity=10_000,
    because="it says itself until when",
)
NEW_ARTIFACTS = Remembered(
    name="artifacts/creating.created",
    what="how many artifacts a task got since they were counted",
    capacity=10_000,
    because="forgetting counts them later: the limit is one of 10,000 and some",
)
FULL = Remembered(
    name="artifacts/creating.full",
    what="a task that has too many artifacts",
    capacity=10_000,
    fresh=_MINUTE,
    because="to count them costs ten requests",
)
ARTIFACT_ROWS = Remembered(
    name="artifacts/upload_urls.rows",
    what="the ETag of an artifact's row, until its content comes",
    capacity=10_000,
    because="the content is written only on that version of the row",
)
HISTORIES = Remembered(
    name="auth/audit.scheduled",
    what="the day of which entries of a history have a scheduled end",
    capacity=10_000,
    because="what is scheduled stays",
)
NAMESPACES = Remembered(
    name="index/rows.listed",
    what="until when a namespace is listed at least",
    capacity=50_000,
    because="only ever gets later",
)
WORKER_COUNTS = Remembered(
    name="pools/states.counted",
    what="the number of a task queue's workers",
    capacity=1000,
    fresh=_MINUTE,
    because="shown to people; ten pages of the console",
)
ENDING = Remembered(
    name="clients/ending.ending",
    what="clients that end soon",
    capacity=1,
    fresh=timedelta(minutes=10),
    because="all clients are read for it",
)
REFUSED = Remembered(
    name="clients/ending.refused",
    what="clients that are refused again and again",
    capacity=1,
    fresh=_MINUTE,
    because="processes write it once a minute",
)
FINDINGS = Remembered(
    name="overview/health.findings",
    what="what is wrong with the deployment",
    capacity=1,
    fresh=timedelta(seconds=10),
    because="frequent callers ask this process, and not the services",
)
SILENT = Remembered(
    name="overview/health.silent",
    what="services that do not answer",
    capacity=1,
    fresh=timedelta(seconds=5),
    because="likewise",
)

ALL: tuple[Remembered, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Remembered))
