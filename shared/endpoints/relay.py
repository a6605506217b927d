"""The upload route for artifacts (design 8): not an API, its URLs are made by createArtifact."""

from __future__ import annotations

from shared.api.answer import Answer
from shared.api.endpoint import Call, Endpoint
from shared.services.queue import ArtifactServices
from shared.usecases.upload_urls import RELAY_PREFIX


async def upload_artifact(services: ArtifactServices, call: Call) -> Answer:
    """Stores the body; returns 200 without a body, as S3 does."""
    encoding = call.headers.get("content-encoding", "")
    await services.artifacts.relay.put(call.params, call.query, call.content, encoding)
    return Answer(status=200, content_type="text/plain; charset=utf-8")


PREFIX = RELAY_PREFIX

ENDPOINTS: tuple[Endpoint[ArtifactServices], ...] = (
    Endpoint(
        name="uploadArtifact",
        method="PUT",
        route="/<taskId>/<runId>/<name>",
        handler=upload_artifact,
        title="Upload Artifact",
        description="Stores the content of an artifact, with its Content-Encoding.",
        category="Artifacts",
        query={"type": r".*", "version": r"[A-Za-z0-9_-]{22}", "until": r"[0-9]{1,12}", "signature": r".+"},
        takes_content=True,
    ),
)
