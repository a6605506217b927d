"""How much a process does, reads and holds at a time, and why as much as that. Design 2.9 has these as a table.

Written there by `python -m local.design_tables`. What the contract promises stays with the rule that it belongs to,
what Azure allows is in shared/store/limits.py, and the numbers of things remembered are in shared/base/remembered.py.
"""

from __future__ import annotations

_KIB, _MIB = 1 << 10, 1 << 20

# Side by side

CONNECTIONS = 100
"""Connections to storage: a request waits for a free one, within its time."""
BACKGROUND = 16
"""Requests at a time of expiry, samples, health and commits of uploads: a sixth of the connections."""
POOLS_AT_A_TIME = 8
"""Pools that are read at a time, and rows of one that are repaired: each may take several queries of 1,000 rows."""
TASKS_AT_A_TIME = 32
"""Tasks that one call on many reads or changes at a time: a third of the connections."""
ROWS_AT_A_TIME = 64
"""Small rows that are read by their keys at a time: dependencies, members of a group, paths of the index. This is also
the most for all lookups by lists of one process."""
EDGES_AT_A_TIME = 100
"""Dependents and uploads that one message of a resolution deals with; the rest is a message of its own. As many as
there are connections."""
TRANSACTIONS_AT_A_TIME = 8
"""Transactions of edges of one task: all go to one partition, which takes 2,000 rows a second."""
UNKNOWN_CLIENTS_AT_A_TIME = 16
"""Clients that are read at a time because a request names them: anyone can send names that do not exist."""
LISTS_AT_A_TIME = 4
"""Pages of definitions that are put together at a time: more are no faster."""

# Waiting

LISTS_WAITING = 24
"""Pages that wait for that, each with up to a megabyte of rows."""
LISTS_OF_LOOKUPS = 28
"""Calls that read small rows by lists. With the pages and the sign-ins that wait they are fewer than the calls at which
long polls have to end."""
SIGN_INS_WAITING = 8
"""Sign-ins that wait for a provider's keys: each has the place of a call."""
CALLS_WAITING_FOR_EACH = 20
"""Calls that wait for each one under way: if a call takes 0.75 s, as many have their turn within the 15 s that they
wait."""
RESOLUTIONS_WAITING_FOR_EACH = 8
"""Resolutions that wait for each one that is followed up in the process: beyond that their messages do it."""
BYTES_WAITING = 32 * _MIB
"""Bytes of the bodies of calls that wait for their turn; and of those that wait to be parsed."""

# Pages

PAGE = 1000
"""Entries of a page, unless the caller asks for fewer: one query of a table has no more."""
PAGE_OF_LOOKUPS = 200
"""Entries of a page of which each costs a read, unless the caller says how many."""
PAGE_OF_READINGS = 100
"""Groups or task queues on a page: each costs a query of its own."""
PAGE_OF_SCOPES = 4_000_000
"""Characters of scopes after which a page of clients or roles ends early: an answer has a few megabytes."""
SCOPES_WITHOUT_PAGES = 16_000_000
"""Characters of scopes of a listing that upstream defines without pages."""
STARVATION_ROWS = 100
"""Oldest pending runs of a pool that are searched for runs that have waited too long."""
ACTIVE_ROWS = 5
"""Active rows in one request of a group's check: nearly always the first one ends it."""
ACTIVE_PAGES = 20
"""Such requests in one check; the next check goes on."""
RECONCILED_POOLS = 50
"""Pools that are checked before it is noted where a check of all goes on."""
RECONCILED_PAGES = 10
"""Pages of one pool in a check of all pools: the oldest rows, then on from where the last check ended."""
SAMPLED_QUEUES = 500
"""Task queues that a sample reads, and that have a gauge: a backend of metrics keeps a series for each of them."""
SAMPLED_IDLE_QUEUES = 100
"""How many of these are reserved for task queues without tasks, in turn."""
STALLED_QUEUES = 10
"""Task queues that a verdict on the deployment looks at: those in which a run has waited longest."""
CLAIMED_RUNS_READ = 32
"""Claimed runs of a task queue up to which their tasks are read to count them; beyond, their rows are counted."""
EVENTS_OF_A_SEND = 500
"""Messages in one send to Service Bus; their bytes are bounded by the link as well."""

# Memory

SMALL_BODY = 16 * _KIB
"""Bytes of a body that is parsed at once, within a few milliseconds. Larger ones go one by one, in a thread."""
SMALL_DEFINITION = 64 * _KIB
"""Bytes in memory of a definition that takes no room of the large ones, and never waits."""
IN_HAND = 112 * _MIB
"""Bytes in memory of the bodies and definitions, except small ones, that calls use. Definitions that are kept for later
calls come on top. The smallest instance has 512 MB for everything."""
DEFINITIONS_IN_ANSWER = 16 * _MIB
"""Bytes of the definitions in one answer, if it has more than one."""
EXPANDED_SCOPES = 200_000
"""Scopes of all expansions that are kept with the roles."""
LARGE_POOL = 200
"""Rows from which on a pool is answered from a copy: reading them takes long, and many ask for large pools."""
SERIES = 2000
"""Series of a counter or histogram: there may be very many task queues. The rest are one series."""
COUNTED_URLS = 10_000
"""Sets of URLs of one task queue that are counted as workers that wait."""
KEYS_OF_A_PROVIDER = _MIB
"""Bytes of an answer of a sign-in provider: its keys have a few thousand."""
