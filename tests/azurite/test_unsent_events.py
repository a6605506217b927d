"""The expiry job holds back what unsent events need, on a real account, which counts hidden messages, too."""

from __future__ import annotations

from shared.queue.tasks.internal_messages import EVENTS_QUEUE
from shared.store import keys
from tests.azurite.crashing import Worlds
from tests.simulator.situations import GROUP, A
from tests.simulator.test_unsent_events import HOUR, live, outage_ends, pass_hours


def test_no_event_is_lost_in_an_outage_that_outlasts_its_task(worlds: Worlds) -> None:
    world = worlds.open()

    async def story() -> None:
        world.topics.is_down = True
        await live(world)
        await world.clock.sleep(4 * HOUR)
        hidden = await world.account.connect().queues.get(EVENTS_QUEUE, count=32, hidden_for=7200)
        assert hidden, "by the host, while they are tried"
        await pass_hours(world, 2)
        assert A in world.tasks()
        await pass_hours(world, 8)
        assert A in world.tasks()
        await outage_ends(world)
        assert not world.rows(keys.GROUPS, GROUP)

    world.run(story())
