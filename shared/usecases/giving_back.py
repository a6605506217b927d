"""Gives back claims that no worker has received: the run is pending again at once, without a retry (design 4)."""

from __future__ import annotations

import logging
from datetime import timedelta

from shared.domain import claim_ends
from shared.domain.claim_ends import UndeliveredClaim
from shared.domain.effects import NoDecision
from shared.errors import ApiError, ResourceNotFound
from shared.storage.interface import StorageUnavailable
from shared.usecases.executor import Executor, Stores

log = logging.getLogger("taskcluster.claims")

AT_ONCE = timedelta(0)
AFTER_DEFECT = timedelta(minutes=1)
"""A claim that failed for a defect would fail again: its run is shown to workers after this."""
AGAIN = timedelta(seconds=5)
"""After this a claim is given back by its message, where the call that has made it could not."""


class GivingBack:
    """What becomes of every claim that is not in the answer of its call."""

    def __init__(self, stores: Stores, executor: Executor) -> None:
        self._stores = stores
        self._executor = executor

    async def give_back(self, claim: UndeliveredClaim, after: timedelta = AT_ONCE) -> None:
        """Gives a claim back, or leaves that to a message; where that fails, too, the claim ends at takenUntil.

        The run may be claimed again `after` that time.
        """
        try:
            await self.take_back(claim, after)
        except (StorageUnavailable, ApiError):
            await self._leave_to_message(claim)
        except Exception:
            log.exception("could not return the claim of task %s", claim.task_id, extra=_extra(claim))
            await self._leave_to_message(claim)

    async def take_back(self, claim: UndeliveredClaim, after: timedelta = AT_ONCE) -> None:
        """Gives a claim back, if the status row has it; one that may still be committed is kept from it.

        May be repeated. Raises StorageUnavailable, ServiceUnavailable.
        """
        visible = self._stores.runtime.now() + after if after else None
        try:
            await self._executor.run(claim.task_id, lambda read, _: claim_ends.take_back(read.task, claim, visible))
        except (NoDecision, ResourceNotFound):
            return

    async def _leave_to_message(self, claim: UndeliveredClaim) -> None:
        try:
            await self._stores.messages.put_undelivered(claim, self._stores.runtime.now() + AGAIN)
        except StorageUnavailable:
            log.warning("the claim of task %s was not returned", claim.task_id, extra=_extra(claim))


def _extra(claim: UndeliveredClaim) -> dict[str, str]:
    return {"action": "not_returned", "taskId": claim.task_id}
