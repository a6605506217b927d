"""The heartbeat names services that do not respond, in time, and asks them no more often than it helps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from shared.overview.health import Ask, Heartbeat


class Asked:
    """A service that responds, fails or hangs, and counts."""

    def __init__(self, behaviour: str) -> None:
        self.behaviour = behaviour
        self.times = 0

    async def __call__(self) -> None:
        self.times += 1
        if self.behaviour == "hangs":
            await asyncio.Event().wait()
        if self.behaviour == "fails":
            raise OSError("not for the caller")


def watched(limit: float = 5.0, **behaviours: str) -> tuple[Heartbeat, dict[str, Asked], list[float]]:
    asked = {name: Asked(behaviour) for name, behaviour in behaviours.items()}
    asks: dict[str, Ask] = dict(asked)
    clock = [100.0]
    return Heartbeat(asks, lambda: datetime.fromtimestamp(clock[0], UTC), limit=limit), asked, clock


@pytest.mark.parametrize("behaviour", ["fails", "hangs"])
async def test_service_that_does_not_answer_in_time_is_named(behaviour: str) -> None:
    heartbeat, _, _ = watched(0.05, tables="answers", queues=behaviour, blobs="answers")
    assert await heartbeat.silent() == ["queues"]


async def test_answer_is_kept_for_a_while_and_shared() -> None:
    heartbeat, asked, clock = watched(tables="fails")
    assert await asyncio.gather(*(heartbeat.silent() for _ in range(50))) == [["tables"]] * 50
    clock[0] += 4.9
    await heartbeat.silent()
    assert asked["tables"].times == 1
    asked["tables"].behaviour = "answers"
    clock[0] += 0.2
    assert await heartbeat.silent() == []
    assert asked["tables"].times == 2
