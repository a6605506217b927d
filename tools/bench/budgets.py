"""What a call may cost in storage requests (design 6), by kind: the basis of the cost model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

Cost = Mapping[str, float]
"""Storage requests by kind: R, W tables; P, G, U, D queues; BR, BW, BD blobs."""

CALLS: Mapping[str, Cost] = {
    "createTask": {"P": 2, "W": 3},
    "claimWork": {"G": 1, "P": 1, "U": 1, "W": 2},
    "reclaimTask": {"U": 2, "W": 1},
    "reportCompleted": {"P": 1, "W": 1, "D": 2},
    "resolved message": {"R": 3, "W": 2, "D": 1},
    "createArtifact": {"W": 1},
    "relay PUT": {"BW": 1, "W": 1},
    "status": {"R": 1},
}
"""Costs of the calls of our own code, in the happy case of a warm process that has committed the task last; a
resolution is not the first of its group that the process follows up."""

SHARED: Cost = {"R": 3}
"""Additional cost of a task whose calls several processes share, since they have to read it first."""

SHARED_PUT: Cost = {"R": 2}
"""Additional cost of an upload by relay to a process that has not created the artifact."""

UPLOAD: Cost = {"BW": 2, "W": 1}
"""Cost of the worker's own upload of an artifact's block straight into storage, and of its commit."""
FOLLOWED: Cost = {"D": 1}
"""Cost of the resolved message if the process that has followed the resolution up removes it: no function wakes."""
EXPIRY: Cost = {"R": 1.4, "W": 1.3}
"""Cost of a task's deletion: its rows, and a twentieth of its group's. The blobs' deletion is free."""
READ: Cost = {"R": 1, "BR": 1}
"""Cost of reading an artifact by its signed URL."""

NOTE: Cost = {"W": 1}
"""Cost of noting which task queues wait for workers, besides the gauges."""
GAUGES: Cost = {"R": 2.5, "G": 6}
"""Cost of reading the gauges: directory, refused clients, lengths of queues, and every other time clients."""
GAUGES_A_POOL: Cost = {"R": 1}
"""Additional cost of each task queue in a reading of the gauges."""


def life_of_a_task(artifacts: float, reads: float, relayed: float, *, processes: int = 1) -> Cost:
    """Returns all requests of an ordinary task: created, claimed, renewed once, completed, followed up, deleted.
    `relayed` of its `artifacts` come by the relay, the others straight into storage. `processes` is the number of
    processes that serve calls."""
    total: dict[str, float] = defaultdict(float)
    calls = ("createTask", "claimWork", "reclaimTask", "reportCompleted", "resolved message")
    for cost, times in (
        *((CALLS[call], 1.0) for call in calls),
        (SHARED, 1.0 if processes > 1 else 0.0),
        (SHARED_PUT, relayed if processes > 1 else 0.0),
        (FOLLOWED, 1.0),
        (EXPIRY, 1.0),
        (CALLS["createArtifact"], artifacts),
        (CALLS["relay PUT"], relayed),
        (UPLOAD, artifacts - relayed),
        (READ, reads),
    ):
        for kind, number in cost.items():
            total[kind] += number * times
    return total


def tables(cost: Cost) -> float:
    """Returns the number of requests to tables."""
    return sum(number for kind, number in cost.items() if kind in {"R", "W"})


def queues(cost: Cost) -> float:
    """Returns the number of requests to queues."""
    return sum(number for kind, number in cost.items() if kind in {"P", "G", "U", "D"})
