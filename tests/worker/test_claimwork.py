"""How soon the worker calls claimWork again."""

from __future__ import annotations

import pytest

from worker.claimwork import SHORT, ClaimWork
from worker.options import Options
from worker.queue import Advice, Json


class Slow:
    """A queue without work, in which a call takes so long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self._now, self._seconds = 1000.0, seconds
        monkeypatch.setattr("worker.claimwork.time.monotonic", lambda: self._now)

    async def claimWork(self, task_queue_id: str, request: Json) -> Json:  # noqa: N802 - the client's name
        self._now += self._seconds
        return {"tasks": []}


class Advised(Advice):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds


@pytest.mark.parametrize(
    ("waited", "advised", "least", "most"),
    [
        (0.0, 0.0, SHORT / 2, SHORT),
        (20.0, 0.0, 0.0, 0.0),
        (3.0, 0.0, 0.0, 0.0),
        (20.0, 8.0, 4.0, 8.0),
        (0.0, 8.0, 4.0, 8.0),
    ],
)
async def test_a_call_follows_at_once_on_one_that_waited_unless_the_queue_asks_for_a_pause(
    monkeypatch: pytest.MonkeyPatch, waited: float, advised: float, least: float, most: float
) -> None:
    options = Options(root_url="", credentials={}, task_queue_id="p/w", worker_group="g", worker_id="w")
    source = ClaimWork(Slow(monkeypatch, waited), Advised(advised), options)  # type: ignore[arg-type]
    assert await source.claims(1) == []
    assert least <= max(source.pause(), 0.0) <= most
