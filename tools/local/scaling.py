"""How many workers a scaler starts: the arithmetic of KEDA's ScaledJob, which Azure Container Apps jobs use.

A scaler looks every polling interval. With the strategy `default` it starts as many workers as its value asks for, less
those that still run. So the value must count all unresolved runs (taskQueueLoad, contract 9). If it counted pending
runs alone, no worker would be started for them while as many workers are busy.
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
    """`accurate` needs a value without the runs that workers have claimed (`pendingTasks`)."""


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
