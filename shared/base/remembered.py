"""Everything that a process remembers: how much, how old it may be, and why. Design 2.8 has it as a table.

Written there by `python -m tools.local.design_tables`.
"""

from __future__ import annotations

from datetime import timedelta

from shared.base.memo import Remembered

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

CLIENTS = Remembered("auth/keyring.client", 2000, fresh=_MINUTE, absent=timedelta(seconds=5))
"""A client, or that there is none of this name. Other processes see a change that late; one that does not exist may
just be created."""
ROLES = Remembered("auth/keyring.roles", 1, fresh=_MINUTE)
"""All roles, with expansions of scopes. Other processes see a change that late."""
STATUSES = Remembered("tasks/known.statuses", 20_000)
"""The status of a task, and the ETags of rows that vouch for it. Shown for a second, longer while the rows are
unchanged ([11](#design-11))."""
COMMITTED = Remembered("tasks/known.committed", 5000)
"""An unresolved task as this process has committed it last. 2 KB each; a commit holds only on that version."""
DEPENDENCIES = Remembered("tasks/known.dependencies", 100_000)
"""The group and the end of a task that others may depend on. Never changes; 10,000 dependencies of ten new tasks."""
GROUPS = Remembered("groups/store.headers", 10_000)
"""A group's header as it was seen last. Guard rows refuse what is wrong; a group never ends earlier."""
SWEEPS = Remembered("groups/membership.sweeps", 10_000)
"""Sweeps of groups that are scheduled. One that is scheduled stays."""
UNRESOLVED = Remembered("groups/check.unresolved", 10_000)
"""The row that has ended the latest check of a group. Compared with the row by its ETag."""
GROUP_LOOKS = Remembered("groups/check.looks", 0)
"""Whether a group has active tasks. Not older than the question."""
GROUP_LISTS = Remembered("groups/listing.lists", 0)
"""A page of a group's tasks. Not older than the question."""
POOL_READINGS = Remembered("pools/index.readings", 0)
"""Which runs of a pool have index rows. Not older than the question."""
POOL_COPIES = Remembered("pools/index.copies", 100, fresh=timedelta(seconds=1))
"""Which runs of a large pool have index rows. To read a large pool takes long."""
VOUCHERS = Remembered("groups/statuses.vouchers", 1000, fresh=timedelta(seconds=1))
"""What was read of a pool's index to vouch for statuses. As old as a status that is shown without a look."""
SENT = Remembered("events/announcer.sent", 20_000)
"""MessageIds of events that were sent, or kept a pointer to. One that is sent again is recognised by the topic."""
WORKERS = Remembered("pools/worker_rows.known", 20_000, fresh=timedelta(seconds=30))
"""A worker's row. A quarantine is seen that late."""
DIRECTORY = Remembered("pools/directory.fresh", 20_000)
"""When a row of the directory was written last. It says itself how old it is."""
BANDS = Remembered("pools/queues.bands", 10_000, fresh=timedelta(seconds=10))
"""A pool's bands in use. A poller sees a new band that late."""
BAND_QUEUES = Remembered("pools/queues.made", 70_000, fresh=_HOUR)
"""A band whose queue exists. 10,000 pools; queues of a pool that was not used for weeks are deleted in two steps, a day
apart."""
ALL_QUEUES = Remembered("pools/queues.all_made", 10_000, fresh=_HOUR)
"""A pool of which all seven queues exist. Like `BAND_QUEUES`."""
STARVING = Remembered("claims/polling.starving", 10_000, fresh=timedelta(seconds=10))
"""The bands of a pool that have waited too long. As old as the bands in use."""
TOLD = Remembered("claims/telling.last", 10_000, fresh=_HOUR)
"""How a worker was told that there is work, if by 503. Forgetting it costs a client that does not repeat calls two
pauses."""
QUIET = Remembered("claims/polling.quiet", 10_000, fresh=timedelta(seconds=15))
"""Since when a pool that was polled lately has had no work. Workers call again within seconds, or had work; forgetting
it makes the next calls look more often."""
POLL_URLS = Remembered("claims/poll_urls.given", 1000)
"""When sets of URLs end that were given out, for a count. A metric, of task queues that are polled by URLs; 10,000 sets
of each."""
VAIN = Remembered("claims/poll_urls.pools", 10_000)
"""Vain requests for work in a pool. Advice only; forgetting it makes workers ask sooner."""
CHECKED = Remembered("tasks/reconciler.checked", 10_000, fresh=_MINUTE)
"""A pool whose oldest rows were checked. A pool that is polled in vain is checked that often."""
CLAIMED_CHECKED = Remembered("tasks/reconciler.claimed_checked", 10_000, fresh=_HOUR)
"""A pool whose claimed rows were checked. Overdue claims are looked for that often, besides their timers."""
IN_USE = Remembered("tasks/reconciler.in_use", 10_000)
"""Until when a pool's queues need no look. It says itself until when."""
NEW_ARTIFACTS = Remembered("artifacts/creating.created", 10_000)
"""How many artifacts a task got since they were counted. Forgetting counts them later: the limit is one of 10,000 and
some."""
FULL = Remembered("artifacts/creating.full", 10_000, fresh=_MINUTE)
"""A task that has too many artifacts. To count them costs ten requests."""
CREATED_ARTIFACTS = Remembered("artifacts/upload_urls.created", 10_000)
"""An artifact that is to be uploaded, until its content comes. The content is written only on that version of the row.
"""
HISTORIES = Remembered("auth/audit.scheduled", 10_000)
"""The day of which entries of a history have a scheduled end. What is scheduled stays."""
NAMESPACES = Remembered("index/rows.listed", 50_000)
"""Until when a namespace is listed at least. Only ever gets later."""
WORKER_COUNTS = Remembered("pools/states.counted", 1000, fresh=_MINUTE)
"""The number of a task queue's workers. Shown to people; ten pages of the console."""
ENDING = Remembered("clients/ending.ending", 1, fresh=timedelta(minutes=10))
"""Clients that end soon. All clients are read for it."""
REFUSED = Remembered("clients/ending.refused", 1, fresh=_MINUTE)
"""Clients that are refused again and again. Processes write it once a minute."""
FINDINGS = Remembered("overview/health.findings", 1, fresh=timedelta(seconds=10))
"""What is wrong with the deployment. Frequent callers ask this process, and not the services."""
SILENT = Remembered("overview/health.silent", 1, fresh=timedelta(seconds=5))
"""Services that do not answer. Like `FINDINGS`."""

ALL: tuple[Remembered, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Remembered))
