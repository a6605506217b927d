"""The upload route for artifacts (design 8): not an API, its URLs are made by createArtifact."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.usecases.relay import PREFIX as PREFIX

ENDPOINTS = (
    Endpoint(
        name="uploadArtifact",
        method="PUT",
        route="/<taskId>/<runId>/<name>",
        title="Upload Artifact",
        description="Takes the content of an artifact, with the Content-Encoding that it has.",
        category="Artifacts",
        query={"type": r".*", "version": r"[A-Za-z0-9_-]{22}", "until": r"[0-9]{1,12}", "signature": r".+"},
        takes_content=True,
    ),
)
