"""The timing rules that make the design safe, each with its reason. A test asserts their order.

Storage keeps no transaction over several tables and queues, so what a commit needs is written ahead of it, and a reader
of it has to know when the commit cannot come any more (design 2)."""

from __future__ import annotations

from datetime import timedelta

STORAGE_CLOCK_SKEW = timedelta(seconds=1)
"""The most by which the clock of the storage, which dates rows, may differ from ours."""

LATEST_COMMIT = timedelta(minutes=2)
"""No commit is sent later than this after its call's first write ahead; the call returns 503 instead (design 2). Longer
than a call takes with all retries of its requests and five lost races, so that only a process that was suspended is
refused; and shorter than `ORPHAN_AFTER` by a margin for the request itself."""

ORPHAN_AFTER = timedelta(minutes=5)
"""How long after a row or message was written ahead its commit may still come (design 4). Later, what was written ahead
belongs to a call that died: it is an orphan. Longer than `LATEST_COMMIT` by more than one request to storage takes with
all of its retries, and by more than clocks differ."""

ROWS_COMPLETE_AFTER = timedelta(minutes=10)
"""A range of rows that are written ahead of commits, such as an hour's bucket of expirations, counts as complete after
this time. Longer than `ORPHAN_AFTER`: nothing is added any more."""

MESSAGE_LOST_AFTER = timedelta(minutes=10)
"""If the first message of a queue was put this much later than a run's index row was written, that run's message is
lost. Longer than `ORPHAN_AFTER`: while the commit of a run may still come, its message does not count as lost."""

EXPIRY_GRACE_PERIOD = timedelta(minutes=30)
"""How long something is kept after its expiration (contract 14.3). Longer than `ROWS_COMPLETE_AFTER`, and than clocks
of clients differ (`CLIENT_CLOCK_SKEW`)."""

REPEATS_RECOGNISED = timedelta(hours=1)
"""The time for which the topics recognise a repeated event by its MessageId (duplicate detection in infra/profiles)."""

LATE_TIMERS = timedelta(hours=6)
"""How long the deletion of an expired task that is not resolved is put off: its deadline message may only be late."""

OVERDUE = timedelta(hours=1)
"""A task is resolved at its deadline: one that is not resolved this much later has lost its deadline message. Longer
than the delay of deadline messages, and than a handler takes whose first try died."""

CLIENT_CLOCK_SKEW = timedelta(minutes=15)
"""How far a date that a client sends may be off: `created`, a deadline beyond its limit, `expires` (contract 3.3)."""

SIGNED_URL_CLOCK_SKEW = timedelta(minutes=15)
"""Signed URLs are valid from this long before they are made, since their users' clocks differ (Azure's own advice)."""

HIDDEN_WHILE_CLAIMING = timedelta(minutes=1)
"""How long a pending message is hidden while its claim is decided; the claim moves it to takenUntil. Shorter than the
claims that workers renew, and than `LATEST_COMMIT`: if the process dies, another worker gets the run soon."""

RESOLVED_DELAY = timedelta(seconds=1)
"""A resolved message is put ahead of its commit and hidden for this long: by then the commit has usually come."""

FOLLOWED_DELAY = timedelta(seconds=5)
"""The delay of a resolved message whose work the committing process is about to do itself, in place of
`RESOLVED_DELAY`. Longer than that work usually takes, so that it is rarely done twice. Short enough that dependents can
wait for the message if the process has died."""

LONGEST_TIMER = timedelta(days=7) - timedelta(hours=1)
"""A message can be hidden for 7 days; a longer timer is put again when it comes up (design 3)."""
