"""The storage requests of each call, by round trip (design 6): held to the code by a test that records them."""

from __future__ import annotations

from collections.abc import Mapping

RoundTrip = tuple[str, ...]
"""Requests that are under way together: "kind resource", by the letters of design 6."""
Call = tuple[RoundTrip, ...]

PENDING = "pending"
"""Name of the queue of any band of a pool."""
BLOBS = "blobs"
"""Name of any container."""

CALLS: Mapping[str, Call] = {
    "createTask": (("W Groups", "P deadline", "P pending", "W Pools"), ("W Tasks",)),
    "claimWork": (("G pending",), ("R Tasks", "P claim", "U pending"), ("W Pools",), ("W Tasks",)),
    "reclaimTask": (("R Tasks",), ("U claim", "U pending"), ("W Tasks",)),
    "reportCompleted": (("R Tasks", "P resolved"), ("W Tasks",), ("D claim", "D pending")),
    "createArtifact": (("W Tasks",),),
    "relay PUT": (("R Tasks", "R Tasks"), ("BW blobs",), ("W Tasks",)),
    "status": (("R Tasks",),),
    "resolved": (
        ("R Tasks",),
        ("W Groups",),
        ("R Groups", "R Groups", "W Pools"),
        ("R Tasks",),
        ("D deadline",),
    ),
    "claim": (("R Tasks",), ("U pending", "W Pools"), ("W Tasks",), ("W Pools",)),
    "deadline": (("R Tasks",), ("P resolved",), ("W Tasks",), ("D pending", "W Pools")),
}
"""The storage requests of each call, of a warm process in the happy case, one of many: it has not committed the task
that is claimed, renewed or reported, nor created the artifact. The last three calls handle the message of an internal
queue of that name."""

OTHER: Call = (("R Tasks",), ("R Tasks",))
"""The storage requests of any other call of the API: an assumption of the load, not recorded from a call."""


def requests(call: Call) -> int:
    """How many requests a call makes."""
    return sum(map(len, call))
