"""How many workers a scaler starts: the arithmetic of KEDA's ScaledJob, which Azure Container Apps jobs use.

A scaler looks every polling interval. With the strategy `default` it starts what its value wants less what is still
running, so the value must be of all unresolved runs (taskQueueLoad, contract 9). With that of the pending ones alone,
as many busy workers as there are pending runs would keep it from starting any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["default", "accurate"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The configuration of a scaled job."""

    target: float = 1.0
    """Runs that one worker works on at a time."""
    minimum: int = 0
    maximum: int = 100
    """Workers at a time."""
    activation: float = 0.0
    """A value has to be above this to count."""
    strategy: Strategy = "default"
    """`accurate` takes a value that leaves out what workers have claimed (`pendingTasks`)."""


def starts(values: Sequence[float | None], *, running: int, starting: int = 0, scale: Scale) -> int:
    """How many workers one look at the values starts.

    `values` has one value for each rule, None where it could not be read: the largest decides. `running` are all
    workers that have not ended, `starting` those of them that have not begun to work.
    """
    minimum = min(scale.minimum, scale.maximum)
    room = scale.maximum - scale.minimum if scale.minimum <= scale.maximum else scale.maximum
    value = max((each for each in values if each is not None and each > scale.activation), default=0.0)
    if value <= 0 and minimum == 0:
        return 0
    if running < minimum:  # workers that are still starting count; the values are read again at the next interval
        return minimum - running
    wanted = math.ceil(min(value / scale.target, room))
    busy = running - minimum
    if scale.strategy == "default":
        number = wanted - busy
    elif wanted + busy - starting > room:
        number = room - busy
    else:
        number = wanted - starting
    return max(0, min(number, math.ceil(value)))
