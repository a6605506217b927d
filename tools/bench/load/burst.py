"""A burst: how long calls wait when one client creates many tasks at once, beside other clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.auth.certificates import temporary_credentials
from shared.base.ids import new_slugid
from tools.bench.load.client import CallFailed, Calls, Kind, Target
from tools.bench.load.crowd import Clock, Seen

RETRIES = 5
"""Number of retries, as the public clients have it."""
REFUSED = "refused, and sent again"
"""Name under which refused calls of the burst are counted."""


def named(target: Target, number: int) -> Target:
    """Returns another client of the deployment, by credentials that this one issues if it can."""
    if target.certificate:
        return target
    now = datetime.now(UTC)
    made = temporary_credentials(
        client_id=f"bench/other-{number}",
        scopes=["queue:create-task:*", "queue:scheduler-id:bench"],
        start=now - timedelta(minutes=1),
        expiry=now + timedelta(hours=1),
        issuer=target.client_id,
        issuer_token=target.access_token,
        seed=new_slugid() + new_slugid(),
    )
    return replace(
        target, client_id=made["clientId"], access_token=made["accessToken"], certificate=made["certificate"]
    )


def burst(target: Target, kind: Kind, count: int, others: int) -> tuple[Seen, Seen]:
    """Returns what the burst has seen, with as many connections as calls, and what the others have seen meanwhile."""
    over = threading.Event()
    with ThreadPoolExecutor(count + others) as threads:
        beside = [threads.submit(_every_second, named(target, number), kind, over) for number in range(others)]
        at_once = [threads.submit(_create, target, kind) for _ in range(count)]
        try:
            bursting = _together([each.result() for each in at_once])
        finally:
            over.set()
        return bursting, _together([each.result() for each in beside])


def _create(target: Target, kind: Kind) -> Seen:
    """Calls createTask once, sends it again as the public clients do, and counts it as one call."""
    clock, calls = Clock(), Calls(target, "burst")
    task_id = new_slugid()

    def create() -> None:
        for attempt in range(RETRIES + 1):
            try:
                calls.create(kind, task_id)
            except CallFailed:
                if attempt == RETRIES:
                    raise
                clock.seen.latencies.setdefault(REFUSED, []).append(0.0)
                time.sleep(0.1 * 2**attempt)
            else:
                return

    clock.timed("createTask", create)
    calls.client.close()
    return clock.stop()


def _every_second(target: Target, kind: Kind, over: threading.Event) -> Seen:
    """Calls createTask once a second; a call that is refused counts as a failure."""
    clock, calls = Clock(), Calls(target, "other")
    while not over.wait(1.0):
        clock.timed("createTask", calls.create, kind)
    calls.client.close()
    return clock.stop()


def _together(each: Sequence[Seen]) -> Seen:
    seen = Seen()
    for one in each:
        seen.add(one)
    return seen
