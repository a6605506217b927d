"""Everything that a process remembers: how much, how old it may be, and why. Design 2.8 has it as a table. Written
there by `python -m tools.local.design_tables`."""

from __future__ import annotations

from datetime import timedelta

from shared.base.memo import Remembered

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

CLIENTS = Remembered("auth/keyring.client", 2000, fresh=_MINUTE, absent=timedelta(seconds=5))
"""A client, or that there is none of this name. Other processes see a change after this time; a client that does not
exist may just be created, so that is kept for less."""
ROLES = Remembered("auth/keyring.roles", 1, fresh=_MINUTE)
"""All roles, with expansions of scopes. Other processes see a change after this time."""
STATUSES = Remembered("tasks/known.statuses", 20_000)
"""The status of a task, and the ETags of rows that vouch for it. It is shown for a second, and longer while the rows
are unchanged ([11](#design-11))."""
COMMITTED = Remembered("tasks/known.committed", 5000)
"""An unresolved task as this process has committed it last. Each takes 2 KB; a commit holds only on that version."""
DEPENDENCIES = Remembered("tasks/known.dependencies", 100_000)
"""The group and the end of a task that others may depend on. They never change; there is room for 10,000 dependencies
of ten new tasks."""
GROUPS = Remembered("groups/store.headers", 10_000)
"""A group's header as it was seen last. Guard rows refuse what is outdated; a group never ends earlier."""
SWEEPS = Remembered("groups/membership.sweeps", 10_000)
"""Sweeps of groups that are scheduled. A scheduled sweep stays scheduled."""
UNRESOLVED = Remembered("groups/check.unresolved", 10_000)
"""The row that has ended the latest check of a group. It is compared with the stored row by its ETag."""
GROUP_LOOKS = Remembered("groups/check.looks", 0)
"""Whether a group has active tasks. Each caller gets a reading that began after it asked."""
GROUP_LISTS = Remembered("groups/listing.lists", 0)
"""A page of a group's tasks. Each caller gets a reading that began after it asked."""
POOL_READINGS = Remembered("pools/index.readings", 0)
"""Which runs of a pool have index rows. Each caller gets a reading that began after it asked."""
POOL_COPIES = Remembered("pools/index.copies", 100, fresh=timedelta(seconds=1))
"""Which runs of a large pool have index rows. A large pool takes long to read."""
VOUCHERS = Remembered("tasks/known.vouchers", 1000, fresh=timedelta(seconds=1))
"""What was read of a pool's index to vouch for statuses. It is as old as a status that is shown without another look.
"""
SENT = Remembered("events/announcer.sent", 20_000)
"""MessageIds of events that were sent, or kept as a pointer. The topic recognises an event that is sent again."""
WORKERS = Remembered("pools/worker_rows.known", 20_000, fresh=timedelta(seconds=30))
"""A worker's row. Other processes see a quarantine after this time."""
DIRECTORY = Remembered("pools/directory.fresh", 20_000)
"""When a row of the directory was written last. The entry itself says how old it is."""
BANDS = Remembered("pools/queues.bands", 10_000, fresh=timedelta(seconds=10))
"""A pool's bands in use. A poller sees a new band after this time."""
BAND_QUEUES = Remembered("pools/queues.made", 70_000, fresh=_HOUR)
"""A band whose queue exists. There is room for 10,000 pools; queues of a pool that was not used for weeks are deleted
in two steps, a day apart."""
ALL_QUEUES = Remembered("pools/queues.all_made", 10_000, fresh=_HOUR)
"""A pool of which all seven queues exist. The time is that of the queues of single bands."""
STARVING = Remembered("claims/polling.starving", 10_000, fresh=timedelta(seconds=10))
"""The bands of a pool that have waited too long. They are as old as the bands in use."""
TOLD = Remembered("claims/telling.last", 10_000, fresh=_HOUR)
"""How a worker was told that there is work, if by 503. Forgetting it costs a client that does not repeat calls two
pauses."""
QUIET = Remembered("claims/polling.quiet", 10_000, fresh=timedelta(seconds=15))
"""Since when a pool that was polled lately has had no work. Workers call again within seconds, or had work; forgetting
it makes the next calls look more often."""
POLL_URLS = Remembered("claims/poll_urls.given", 1000)
"""When the sets of URLs end that were given out, for a metric of task queues that are polled by URLs. Up to 10,000 sets
of each are counted."""
VAIN = Remembered("claims/poll_urls.pools", 10_000)
"""The number of vain requests for work in a pool. It is advice only; forgetting it makes workers ask sooner."""
CHECKED = Remembered("tasks/reconciler.checked", 10_000, fresh=_MINUTE)
"""A pool whose oldest rows were checked. A pool that is polled in vain is checked once in this time."""
CLAIMED_CHECKED = Remembered("tasks/reconciler.claimed_checked", 10_000, fresh=_HOUR)
"""A pool whose claimed rows were checked. Overdue claims are looked for once in this time, besides their timers."""
IN_USE = Remembered("tasks/reconciler.in_use", 10_000)
"""Until when a pool's queues need no look. The entry itself says until when it holds."""
NEW_ARTIFACTS = Remembered("artifacts/creating.created", 10_000)
"""How many artifacts a task got since they were counted. Forgetting this delays the next count: the limit is about
10,000."""
FULL = Remembered("artifacts/creating.full", 10_000, fresh=_MINUTE)
"""A task that has too many artifacts. Counting them costs ten requests."""
CREATED_ARTIFACTS = Remembered("artifacts/upload_urls.created", 10_000)
"""An artifact that is to be uploaded, until its content comes. The content is written only on that version of the row.
"""
HISTORIES = Remembered("auth/audit.scheduled", 10_000)
"""The day of which entries of a history have a scheduled end. A scheduled end stays scheduled."""
NAMESPACES = Remembered("index/entries.listed", 50_000)
"""The earliest time until when a namespace is listed. It only ever gets later."""
WORKER_COUNTS = Remembered("pools/states.counted", 1000, fresh=_MINUTE)
"""The number of a task queue's workers. It is shown to people; there is room for ten pages of the console."""
ENDING = Remembered("clients/ending.ending", 1, fresh=timedelta(minutes=10))
"""Clients that end soon. All clients are read to find them."""
REFUSED = Remembered("clients/ending.refused", 1, fresh=_MINUTE)
"""Clients that are refused again and again. Processes write this list once a minute."""
FINDINGS = Remembered("overview/health.findings", 1, fresh=timedelta(seconds=10))
"""What is wrong with the deployment. Frequent callers get the answer of this process, and do not burden the services.
"""
SILENT = Remembered("overview/health.silent", 1, fresh=timedelta(seconds=2))
"""Services that do not answer, for frequent callers. The console has to learn within 10 s that one has stopped."""

ALL: tuple[Remembered, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Remembered))
