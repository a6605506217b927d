"""Triggers: parse, authorise, call one use-case, respond. Each run of a function has a time limit.

The Functions host ends what runs longer than `functionTimeout` (host.json) with the whole worker process: calls and
messages beside it hang until their own time is over. So everything ends by itself before."""

LONGEST_CALL = 225.0
"""Seconds of a call. Azure's front end cuts the connection after 230."""
LONGEST_RUN = 270.0
"""Seconds of a queue function or timer function. Jobs that take long end themselves after 240, and the next run
continues."""
MARGIN = 30.0
"""Seconds by which `functionTimeout` is longer: a run that is over may still put its message again."""
