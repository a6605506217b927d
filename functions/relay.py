"""The upload route for artifacts."""

from __future__ import annotations

from collections.abc import Mapping

from functions.http import Handler
from shared.api.answer import Answer
from shared.api.call import Call
from shared.services import Services


async def upload_artifact(services: Services, call: Call) -> Answer:
    """Stores the body; answers 200 without a body, as S3 does."""
    encoding = call.headers.get("content-encoding", "")
    await services.artifacts.relay.put(call.params, call.query, call.content, encoding)
    return Answer(status=200, content_type="text/plain; charset=utf-8")


HANDLERS: Mapping[str, Handler] = {"uploadArtifact": upload_artifact}
