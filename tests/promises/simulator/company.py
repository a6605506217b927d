"""Other calls and handlers that act between a request of a call and its answer, each from a process of its own.

All of them may be refused: which of them apply is decided by the situation that they are put into.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.app.services import Services
from shared.base.errors import ApiError
from shared.queue.tasks.rules import Resolved
from shared.store.interface import StorageUnavailable
from tests.parts.twin.gate import as_process
from tests.promises.simulator import artifact_parties, parties
from tests.promises.simulator.parties import Party
from tests.promises.simulator.situations import GROUP, OTHER_GROUP, A, B, C, fixed
from tests.promises.simulator.world import POOL, WORKER, World

PROCESS = "company"


def one_after_the_other(*parties: Party) -> Party:
    """Returns a party that makes several calls in one process; a refused one does not keep the next from being made."""

    async def party(world: World, services: Services) -> object:
        for each in parties:
            await make(each, world, services)
        return None

    return party


async def make(party: Party, world: World, services: Services) -> None:
    """Makes one call, which may be refused."""
    try:
        await party(world, services)
    except (ApiError, StorageUnavailable):
        return


async def handle_due(world: World, services: Services) -> object:
    """Calls the handlers of everything that is due within three seconds."""
    await world.clock.sleep(3)
    await world.handle_visible()
    return None


async def create_again(world: World, services: Services) -> object:
    """Calls createTask of the task that the scenarios create, as they create it."""
    return await services.create_task(world.definition(A, taskGroupId=GROUP, **fixed(world)))


async def remove_worker(world: World, services: Services) -> object:
    """Calls workerRemoved of the worker that the scenarios claim with."""
    return await services.workers.removed(POOL, WORKER, start="")


async def expire(world: World, services: Services) -> object:
    """Runs the expiry job."""
    return await services.expiration.run(300)


COMPANY: Mapping[str, Party] = {
    "claimWork": parties.claim("other"),
    "claimTask": parties.claim_task(A, "other"),
    "claimWork, reportCompleted": one_after_the_other(parties.claim("other"), parties.report(A)),
    "claimWork, reportCompleted, its handler": one_after_the_other(
        parties.claim("other"), parties.report(A), handle_due
    ),
    "reclaimTask": parties.reclaim(A),
    "reportCompleted": parties.report(A),
    "reportCompleted, its handler": one_after_the_other(parties.report(A), handle_due),
    "reportException, a retry is left": parties.report_exception(A, Resolved.WORKER_SHUTDOWN),
    "reportException, claimWork": one_after_the_other(
        parties.report_exception(A, Resolved.WORKER_SHUTDOWN), parties.claim("other")
    ),
    "cancelTask": parties.cancel(A),
    "cancelTask of the dependent": parties.cancel(B),
    "cancelTask, rerunTask": one_after_the_other(parties.cancel(A), parties.rerun(A)),
    "cancelTask, its handler, rerunTask": one_after_the_other(parties.cancel(A), handle_due, parties.rerun(A)),
    "rerunTask": parties.rerun(A),
    "scheduleTask": parties.schedule(B),
    "changeTaskPriority": parties.change_priority(A, "very-low"),
    "createTask of the same task": create_again,
    "createTask of a dependent": parties.create(C, dependencies=[A]),
    "createTask of a dependent that knows it": parties.create_knowing(C, dependencies=[A]),
    "createTask of a dependent of another group": parties.create(C, dependencies=[A], taskGroupId=OTHER_GROUP),
    "sealTaskGroup, cancelTaskGroup": parties.seal_and_cancel,
    "workerRemoved": remove_worker,
    "workerRemoved, claimWork": one_after_the_other(remove_worker, parties.claim("other")),
    "createArtifact, a reference": artifact_parties.create_reference,
    "createArtifact, a blob": artifact_parties.create_blob,
    "createArtifact, a blob, completeArtifact": artifact_parties.create_and_complete_blob,
    "createArtifact, direct, getArtifact": artifact_parties.create_and_read_direct,
    "createArtifact, direct, reportCompleted": one_after_the_other(artifact_parties.create_direct, parties.report(A)),
    "claim message": parties.claim_due(A),
    "deadline message": parties.deadline_due(A),
    "whatever is due": handle_due,
    "reconciler": parties.reconcile,
    "expiry job": expire,
}
"""The calls that may act in between, by name."""


async def interfere(party: Party, world: World) -> None:
    """Makes the party's calls, from a process that the simulation has not seen before."""
    await as_process(PROCESS, make(party, world, world.process()))
