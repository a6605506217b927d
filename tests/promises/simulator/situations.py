"""Situations that calls meet: a few tasks with known ids, each in the state that its function names."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from shared.base.dates import format_date
from shared.queue.tasks.rules import Resolved
from tests.promises.simulator.world import CLAIM_TIMEOUT, World

Step = Callable[[World], Coroutine[Any, Any, None]]

A, B, C, GROUP, OTHER_GROUP = (f"{letter * 8}Q{letter}C{letter * 10}A" for letter in "abcde")
"""Ids that a scenario knows before the tasks exist. They are slugids in form."""


async def nothing(world: World) -> None:
    """An empty deployment."""


async def a_group(world: World) -> None:
    """A group with one pending task, C."""
    await world.create(C, taskGroupId=GROUP)


async def pending(world: World) -> None:
    """A is pending."""
    await world.create(A, taskGroupId=GROUP)


async def pending_beside_another_group(world: World) -> None:
    """A is pending, and C is so in another group."""
    await pending(world)
    await world.create(C, taskGroupId=OTHER_GROUP)


async def running(world: World) -> None:
    """A is running."""
    await pending(world)
    assert await world.claim()


async def running_with_index_routes(world: World) -> None:
    """A is running, and asks for two entries of the index."""
    await world.create(A, taskGroupId=GROUP, routes=["index.built.app", "index.built.docs"])
    assert await world.claim()


async def running_without_retries(world: World) -> None:
    """A is running, and would not be retried."""
    await world.create(A, taskGroupId=GROUP, retries=0)
    assert await world.claim()


async def running_until_the_deadline(world: World) -> None:
    """A is running, and its deadline comes before takenUntil."""
    deadline = world.clock.now() + CLAIM_TIMEOUT / 2
    await world.create(A, taskGroupId=GROUP, deadline=format_date(deadline))
    assert await world.claim()


async def completed(world: World) -> None:
    """A is completed, and all about it is done."""
    await running(world)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(30)


async def unscheduled(world: World) -> None:
    """B waits for A, which is pending."""
    await pending(world)
    await world.create(B, taskGroupId=GROUP, dependencies=[A])


async def a_runs_b_waits(world: World) -> None:
    """B waits for A, which is running."""
    await unscheduled(world)
    assert await world.claim()


async def just_completed_and_pending(world: World) -> None:
    """A is completed, and its resolved message has yet to be handled; C, of the same group, is pending."""
    await running(world)
    await world.create(C, taskGroupId=GROUP)
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)


async def opened_again(world: World) -> None:
    """A was completed, and is pending again."""
    await completed(world)
    await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))


async def failed_and_completed_again(world: World) -> None:
    """A has failed, was run again and is completed; none of its resolved messages has been handled."""
    await running(world)
    await world.services.lifecycle.report(A, 0, Resolved.FAILED)
    await world.services.lifecycle.rerun(await world.services.lifecycle.existing(A))
    assert await world.claim()
    await world.services.lifecycle.report(A, 1, Resolved.COMPLETED)


async def a_runs_two_wait(world: World) -> None:
    """B, of the same group, and C, of another one, wait for A, which is running."""
    await a_runs_b_waits(world)
    await world.create(C, taskGroupId=OTHER_GROUP, dependencies=[A])


async def retried(world: World) -> None:
    """A's run 0 was interrupted, its run 1 is pending."""
    await running(world)
    await world.services.lifecycle.report_exception(A, 0, Resolved.WORKER_SHUTDOWN)


async def sealed(world: World) -> None:
    """A group of three, one running, one pending, one waiting, that is sealed."""
    await a_runs_b_waits(world)
    await world.create(C, taskGroupId=GROUP)
    await world.services.groups.seal(await world.services.groups.existing(GROUP))


def fixed(world: World) -> dict[str, str]:
    """Returns dates that a repeat of the same request carries again."""
    return {name: world.fixed[name] for name in ("created", "deadline", "expires")}
