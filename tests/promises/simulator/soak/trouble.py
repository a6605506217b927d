"""What goes wrong in a soak: requests fail, are lost, doubled or late, pages end early, and processes die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shared.store.interface import BlobMissing, Page, ReceiptLost, StorageUnavailable, Tables, TransactionRefused
from tests.parts.twin.gate import Call, Delayed, Killed, Phase, Resent, process_name
from tests.promises.simulator.late import GIVES_UP_AFTER, READS, SENDS_AGAIN_AFTER
from tests.promises.simulator.topics import SERVICE_BUS

LATEST = 60.0
"""The most seconds that a late request takes effect after its client has gone on."""
SHORT = 0.1
"""Share of all pages that end after a few rows, as Azure's may, also in the hours in which nothing goes wrong."""
KINDS = ("refused", "lost", "resent", "late", "doubled", "killed before", "killed after")


@dataclass
class Trouble:
    """A gate. Each request of a named process meets one of the `KINDS`, with the probability of `rate`."""

    chance: random.Random
    landed: Callable[[Call], None]
    """Function that is called with each late request that has taken effect."""
    rate: float = 0.0
    dead: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    _fates: dict[int, tuple[Call, str]] = field(default_factory=dict)
    """What is to happen to the answers of requests that are under way, by identity."""
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def __call__(self, call: Call, phase: Phase) -> None:
        """Decides before the request is sent what happens to it, and does that then or before its answer."""
        process = process_name()
        if process in self.dead:
            raise Killed(f"{process} is dead")
        if phase is Phase.AFTER:
            known, fate = self._fates.pop(id(call), (call, ""))
            if known is call:
                await self._after(fate, process)
        elif process and self.rate and self.chance.random() < self.rate:
            fate = self.chance.choice(KINDS)
            if fate in {"late", "doubled"} and (call.kind in READS or call.target == SERVICE_BUS):
                return
            self.counts[fate] = self.counts.get(fate, 0) + 1
            await self._before(fate, process, call)

    async def _before(self, fate: str, process: str, call: Call) -> None:
        if fate == "refused":
            raise StorageUnavailable("refused")
        if fate == "killed before":
            self.dead.add(process)
            raise Killed(f"{process} dies before {call}")
        if fate in {"late", "doubled"}:
            is_tried_again = fate == "doubled"
            await asyncio.sleep(SENDS_AGAIN_AFTER if is_tried_again else GIVES_UP_AFTER)
            raise Delayed(lambda effect: self._keep(call, effect), is_tried_again=is_tried_again)
        self._fates[id(call)] = call, fate

    async def _after(self, fate: str, process: str) -> None:
        if fate == "lost":
            raise StorageUnavailable("no answer")
        if fate == "resent":
            raise Resent
        if fate == "killed after":
            self.dead.add(process)
            raise Killed(f"{process} dies")

    def _keep(self, call: Call, effect: Callable[[], object]) -> None:
        after = self.chance.random() * LATEST

        async def land() -> None:
            await asyncio.sleep(after)
            try:
                effect()
            except (TransactionRefused, ReceiptLost, BlobMissing, ValueError):
                return
            self.landed(call)

        task = asyncio.create_task(land())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def cut_pages(self, tables: Tables) -> None:
        """Makes some pages of these tables end after one to three rows from now on."""
        query = tables.query

        async def cut(*where: str, limit: int = 1000, **range_: Any) -> Page:
            if self.chance.random() < SHORT:
                self.counts["short page"] = self.counts.get("short page", 0) + 1
                limit = min(limit, self.chance.randint(1, 3))
            return await query(*where, limit=limit, **range_)

        tables.query = cut  # type: ignore[method-assign]
