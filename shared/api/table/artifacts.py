"""Endpoints for artifacts (contract 2.1, 2.2, 7)."""

from __future__ import annotations

from shared.api.endpoint import PAGING, Endpoint
from shared.api.models.artifacts import (
    ArtifactContentResponse,
    ArtifactResponse,
    FinishArtifactRequest,
    GetArtifactResponse,
    ListArtifactsResponse,
    PostArtifactRequest,
    PostArtifactResponse,
)

GET_SCOPES = {"AllOf": [{"for": "name", "in": "names", "each": "queue:get-artifact:<name>"}]}
_CATEGORY = "Artifacts"

# An empty name is a bad name, not the list of artifacts: routes with a name come first.
ENDPOINTS = (
    Endpoint(
        name="createArtifact",
        method="POST",
        route="/task/<taskId>/runs/<runId>/artifacts/<name>",
        title="Create Artifact",
        description="Creates an artifact of a run that is running, or was resolved as `exception` in the last 25 "
        "minutes. What follows depends on the storage type: `s3` answers a URL to PUT the content to, with the same "
        "content type; `object` and `blob` are to be finished with finishArtifact; `reference`, `link` and `error` "
        "are complete. The call may be repeated with the same properties.",
        category=_CATEGORY,
        scopes="queue:create-artifact:<taskId>/<runId>",
        input=PostArtifactRequest,
        input_schema="post-artifact-request",
        output=PostArtifactResponse,
        output_schema="post-artifact-response",
    ),
    Endpoint(
        name="finishArtifact",
        method="PUT",
        route="/task/<taskId>/runs/<runId>/artifacts/<name>",
        title="Finish Artifact",
        description="Says that the content of an `object` artifact has been uploaded; with `etags`, that of a `blob` "
        "(completeArtifact). From then on it can be read.",
        category=_CATEGORY,
        scopes="queue:create-artifact:<taskId>/<runId>",
        input=FinishArtifactRequest,
        input_schema="finish-artifact-request",
        success=204,
    ),
    Endpoint(
        name="getArtifact",
        method="GET",
        route="/task/<taskId>/runs/<runId>/artifacts/<name>",
        title="Get Artifact Data from Run",
        description="Redirects to the content of an artifact; the URL is in the body as well, and is good for some "
        "minutes. Links are followed. An `error` artifact is answered with 424 and its reason.",
        category=_CATEGORY,
        scopes=GET_SCOPES,
        output=GetArtifactResponse,
        output_schema="get-artifact-response",
        success=303,
    ),
    Endpoint(
        name="getLatestArtifact",
        method="GET",
        route="/task/<taskId>/artifacts/<name>",
        title="Get Artifact Data from Latest Run",
        description="As getArtifact, of the task's last run, whether that run has such an artifact or not.",
        category=_CATEGORY,
        scopes=GET_SCOPES,
        output=GetArtifactResponse,
        output_schema="get-artifact-response",
        success=303,
    ),
    Endpoint(
        name="listArtifacts",
        method="GET",
        route="/task/<taskId>/runs/<runId>/artifacts",
        title="Get Artifacts from Run",
        description="Lists the artifacts of a run by name, in pages of at most 1000; those too that are expired or "
        "whose upload is not finished.",
        category=_CATEGORY,
        scopes="queue:list-artifacts:<taskId>:<runId>",
        query=PAGING,
        output=ListArtifactsResponse,
        output_schema="list-artifacts-response",
    ),
    Endpoint(
        name="listLatestArtifacts",
        method="GET",
        route="/task/<taskId>/artifacts",
        title="Get Artifacts from Latest Run",
        description="As listArtifacts, of the task's last run.",
        category=_CATEGORY,
        scopes="queue:list-artifacts:<taskId>",
        query=PAGING,
        output=ListArtifactsResponse,
        output_schema="list-artifacts-response",
    ),
    Endpoint(
        name="artifactInfo",
        method="GET",
        route="/task/<taskId>/runs/<runId>/artifact-info/<name>",
        title="Get Artifact Information From Run",
        description="What is known of an artifact, without its content. Links are not followed.",
        category=_CATEGORY,
        scopes="queue:list-artifacts:<taskId>:<runId>",
        output=ArtifactResponse,
        output_schema="artifact-response",
    ),
    Endpoint(
        name="latestArtifactInfo",
        method="GET",
        route="/task/<taskId>/artifact-info/<name>",
        title="Get Artifact Information From Latest Run",
        description="As artifactInfo, of the task's last run.",
        category=_CATEGORY,
        scopes="queue:list-artifacts:<taskId>",
        output=ArtifactResponse,
        output_schema="artifact-response",
    ),
    Endpoint(
        name="artifact",
        method="GET",
        route="/task/<taskId>/runs/<runId>/artifact-content/<name>",
        title="Get Artifact Content From Run",
        description="How to get at the content of an artifact: for programs that know the storage types. Links are "
        "followed.",
        category=_CATEGORY,
        scopes=GET_SCOPES,
        output=ArtifactContentResponse,
        output_schema="artifact-content-response",
    ),
    Endpoint(
        name="latestArtifact",
        method="GET",
        route="/task/<taskId>/artifact-content/<name>",
        title="Get Artifact Content From Latest Run",
        description="As artifact, of the task's last run.",
        category=_CATEGORY,
        scopes=GET_SCOPES,
        output=ArtifactContentResponse,
        output_schema="artifact-content-response",
    ),
)
