"""The URLs with which workers poll: one for each band, in order, valid from a little earlier on for their life."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import parse_qs, urlsplit

from shared.base.priority import PRIORITIES
from shared.base.protocol import SIGNED_URL_CLOCK_SKEW
from shared.queue.claims.poll_urls import LIFE
from shared.queue.tasks.messages import pending_queue
from tests.promises.simulator.world import POOL, settings, unordered


def test_urls_of_a_pool() -> None:
    world = unordered()
    world.clock.advance(0.7)
    ((urls, expires),) = world.run(world.services.poll_urls.of_pool(POOL))
    now = world.clock.now().replace(microsecond=0)
    assert expires == now + LIFE
    queues = [f"/{pending_queue(POOL, band)}" for band in PRIORITIES]
    for url, queue in zip(urls, queues, strict=True):
        poll, delete = map(urlsplit, url)
        assert poll.path == f"{queue}/messages"
        assert delete.path == f"{queue}/messages/{{{{messageId}}}}"
        query = parse_qs(poll.query)
        assert query["visibilitytimeout"] == [str(settings().poll_visibility_seconds)]
        assert "popreceipt={{popReceipt}}&" in delete.query
        for signed in (query, parse_qs(delete.query)):
            assert datetime.fromisoformat(signed["st"][0]) == now - SIGNED_URL_CLOCK_SKEW
            assert datetime.fromisoformat(signed["se"][0]) == expires
