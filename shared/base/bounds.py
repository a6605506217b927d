"""How much a process does, reads and holds at a time, and why as much as that. Design 2.9 has these as a table.

Written there by `python -m tools.local.design_tables`. What the contract promises stays with the rule that it belongs
to, what Azure allows is in shared/store/limits.py, and the numbers of things remembered are in
shared/base/remembered.py."""

from __future__ import annotations

_KIB, _MIB = 1 << 10, 1 << 20

# Side by side

CONNECTIONS = 100
"""Connections to storage. A request that waits for a free one does so within its time limit."""
BACKGROUND = 16
"""Parallel requests of each background job (expiry, gauges, health, commits of uploads): a sixth of the
connections."""
POOLS_AT_A_TIME = 8
"""Pools that are read in parallel, and rows of a pool that are repaired in parallel: a pool may take several queries of
1,000 rows."""
TASKS_AT_A_TIME = 32
"""Tasks that one call on many tasks reads or changes in parallel: a third of the connections."""
ROWS_AT_A_TIME = 64
"""Small rows that a call reads by their keys in parallel: dependencies, members of a group."""
EDGES_AT_A_TIME = 100
"""Dependents and uploads that one resolved message handles; a further message handles the rest. As many as there are
connections."""
TRANSACTIONS_AT_A_TIME = 8
"""Parallel transactions of the edges of one task: all go to one partition, which takes 2,000 rows a second."""
LISTS_AT_A_TIME = 4
"""Pages of definitions that are built in parallel: more at a time are no faster. A quarter is left to shares that have
none."""
LOOKUPS_AT_A_TIME = 20
"""Calls that look up small rows by a list in parallel. A quarter is left to shares that have none."""

# Waiting

LISTS_WAITING = 24
"""Pages of definitions that wait for their turn, each with up to a megabyte of rows."""
LOOKUPS_WAITING = 8
"""Calls that wait to look up small rows by a list. With those that do, and with the pages and sign-ins that wait, they
are fewer than the calls at which long polls are ended."""
SIGN_INS_WAITING = 8
"""Sign-ins that wait for a provider's keys: each counts as a call under way."""
CALLS_WAITING_FOR_EACH = 20
"""Calls that may wait for each call under way: if a call takes 0.75 s, that many have their turn within the 15 s that a
call waits."""
RESOLUTIONS_WAITING_FOR_EACH = 8
"""Resolutions that may wait for each one that is being followed up in the process. Further ones are left to their
messages."""
BYTES_WAITING = 32 * _MIB
"""Bytes of the bodies of calls that wait for their turn, and likewise of bodies that wait to be parsed."""

# Pages

PAGE = 1000
"""Entries of a page, unless the caller asks for fewer: one query of a table has no more."""
PAGE_OF_LOOKUPS = 200
"""Entries of a page if each entry costs a read, unless the caller says how many."""
PAGE_OF_READINGS = 100
"""Groups or task queues on a page: each costs a query of its own."""
PAGE_OF_SCOPES = 4_000_000
"""Characters of scopes after which a page of clients or roles ends early: an answer has a few megabytes."""
SCOPES_WITHOUT_PAGES = 16_000_000
"""Most characters of scopes in a listing that upstream defines without pages."""
STARVATION_ROWS = 100
"""Oldest pending runs of a pool that are searched for runs that have waited too long."""
ACTIVE_ROWS = 5
"""Active rows in one request of a group's check: nearly always the first one ends it."""
ACTIVE_PAGES = 20
"""Requests for active rows in one check; the next check continues."""
ROWS_OF_A_VAIN_WAIT = 32
"""Oldest pending runs whose messages are checked before a worker that waited in vain is answered, whose client gives
up ten seconds later. All other runs are the timer's."""
RECONCILED_POOLS = 50
"""Pools that the reconciler checks before it stores its position in the directory."""
RECONCILED_PAGES = 10
"""Pages of one pool in a check of all pools: the oldest rows, then those after the end of the previous check."""
MEASURED_QUEUES = 500
"""Task queues that have gauges: a metrics backend keeps a series for each of them."""
MEASURED_IDLE_QUEUES = 100
"""How many of these are reserved for task queues without tasks, which take turns."""
STALLED_QUEUES = 10
"""Task queues that `health` examines: those in which a run has waited longest."""
CLAIMED_RUNS_READ = 32
"""Up to this many claimed runs of a task queue are counted exactly, by reading their tasks. More are counted by their
rows alone."""
QUARANTINES_SHOWN = 50
"""Latest entries of a worker's quarantine history that are shown."""
EVENTS_OF_A_SEND = 500
"""Messages in one send to Service Bus; their bytes are bounded by the link as well."""

# Memory

SMALL_BODY = 16 * _KIB
"""Bytes of a body that is parsed in the event loop, within a few milliseconds. Larger ones are parsed one by one in a
thread."""
SMALL_DEFINITION = 64 * _KIB
"""Bytes in memory of a small definition: it does not count towards the memory budget, and never waits for it."""
IN_HAND = 48 * _MIB
"""The memory budget: bytes of all bodies and definitions in use by calls, except small ones. Definitions that are kept
for later calls come on top. The smallest instance has 512 MB for everything."""
DEFINITIONS_IN_ANSWER = 16 * _MIB
"""Bytes in memory of all definitions in one answer, unless it has a single one."""
EXPANDED_SCOPES = 200_000
"""Scopes in all expansions that are kept with the snapshot of roles."""
LARGE_POOL = 200
"""Rows from which on a pool counts as large: reading it takes long, so answers may come from a copy that is a second
old."""
SERIES = 2000
"""Series of a counter or histogram, as there may be very many task queues. All further labels share one series."""
COUNTED_URLS = 10_000
"""Sets of poll URLs of one task queue that are counted as waiting workers."""
KEYS_OF_A_PROVIDER = _MIB
"""Bytes of an answer of a sign-in provider: its keys have a few thousand."""
