"""Endpoints for artifacts: rows and handlers (contract 2.1, 2.2, 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from shared.api.answer import NO_CONTENT, Answer, json_answer
from shared.api.endpoint import Call, Endpoints, Json
from shared.api.scopes import all_of, for_each
from shared.api.validation import page_of, place_of
from shared.base.dates import format_date
from shared.queue.artifacts import models
from shared.queue.artifacts.creating import CreatedArtifact
from shared.queue.artifacts.objects import object_name
from shared.queue.artifacts.rows import Stored
from shared.queue.artifacts.rules import OPAQUE, Artifact, StorageType, as_header
from shared.queue.services import QueueServices

STORAGE_TYPE = "x-taskcluster-artifact-storage-type"
GET_SCOPES = all_of(for_each("name", "names", "queue:get-artifact:<name>"))

# An empty name is a bad name, not the list of artifacts: routes with a name come first.
ENDPOINTS = Endpoints[QueueServices]("Artifacts")


@ENDPOINTS(
    "createArtifact",
    "POST /task/<taskId>/runs/<runId>/artifacts/<name>",
    "Create Artifact",
    scopes="queue:create-artifact:<taskId>/<runId>",
    input=models.PostArtifactRequest,
)
async def create_artifact(services: QueueServices, call: Call) -> Annotated[Json, models.PostArtifactResponse]:
    """Creates an artifact of a run that is running, or was resolved as `exception` in the last 25 minutes. The next
    step depends on the storage type: for `s3` the content is PUT to the returned URL, with the same content type;
    `object` and `blob` are finished with finishArtifact; `reference`, `link` and `error` are complete. The call may be
    repeated with the same properties."""
    task_id, run_id, name = call.params["taskId"], call.run_id, call.params["name"]
    request = call.payload(models.PostArtifactRequest).root
    settings = services.settings
    wanted = models.from_request(
        name, request, settings.artifact_upload_mode, settings.relayed_at_most, services.runtime.slugid
    )
    created = await services.artifacts.creation.create_or_find(task_id, run_id, wanted)
    artifact, until, urls = created.stored.artifact, created.upload_until, services.artifacts.urls
    answer: dict[str, Any] = {"storageType": artifact.storage_type.value}
    match artifact.storage_type:
        case StorageType.S3 | StorageType.AZURE:
            answer["contentType"] = artifact.content_type
            answer["expires"] = format_date(until)
            answer["putUrl"] = await urls.put_url(created.stored, until)
        case StorageType.BLOB if isinstance(request, models.BlobRequest):
            sizes = [part.size for part in request.parts or ()]
            answer["expires"] = format_date(until)
            answer["requests"] = await urls.requests(created.stored, sizes, until)
        case StorageType.OBJECT:
            answer |= _object_upload(services, created)
        case _:
            pass
    return answer


@ENDPOINTS(
    "finishArtifact",
    "PUT /task/<taskId>/runs/<runId>/artifacts/<name>",
    "Finish Artifact",
    scopes="queue:create-artifact:<taskId>/<runId>",
    input=models.FinishArtifactRequest,
    success=204,
)
async def finish_artifact(services: QueueServices, call: Call) -> Answer:
    """States that the content of an `object` artifact has been uploaded; with `etags`, that of a `blob`
    (completeArtifact). From then on it can be read."""
    task_id, run_id, name = call.params["taskId"], call.run_id, call.params["name"]
    request = call.payload(models.FinishArtifactRequest).root
    if isinstance(request, models.FinishRequest):
        await services.artifacts.creation.finish(task_id, run_id, name, request.uploadId)
    else:
        await services.artifacts.creation.complete(task_id, run_id, name, request.etags)
    return NO_CONTENT


@ENDPOINTS(
    "getLatestArtifact",
    "GET /task/<taskId>/artifacts/<name>",
    "Get Artifact Data from Latest Run",
    description="As getArtifact, for the task's last run, whether or not that run has such an artifact.",
    scopes=GET_SCOPES,
    success=303,
)
@ENDPOINTS(
    "getArtifact",
    "GET /task/<taskId>/runs/<runId>/artifacts/<name>",
    "Get Artifact Data from Run",
    scopes=GET_SCOPES,
    success=303,
)
async def get_artifact(services: QueueServices, call: Call) -> Annotated[Answer, models.GetArtifactResponse]:
    """Redirects to the content of an artifact; the URL is in the body as well, and is valid for some minutes. Links are
    followed. For an `error` artifact the answer is 424 with its reason."""
    task_id, name, authorise = call.params["taskId"], call.params["name"], call.authorise_with("names")
    await authorise([name])  # before anything stored is read (trap 7)
    reading = services.artifacts.reading
    if "runId" in call.params:
        return await _redirection(services, await reading.find(task_id, call.run_id, name, authorise))
    return await _redirection(services, await reading.find_latest(task_id, name, authorise))


@ENDPOINTS(
    "listArtifacts",
    "GET /task/<taskId>/runs/<runId>/artifacts",
    "Get Artifacts from Run",
    scopes="queue:list-artifacts:<taskId>:<runId>",
)
@ENDPOINTS(
    "listLatestArtifacts",
    "GET /task/<taskId>/artifacts",
    "Get Artifacts from Latest Run",
    description="As listArtifacts, for the task's last run.",
    scopes="queue:list-artifacts:<taskId>",
)
async def list_artifacts(services: QueueServices, call: Call) -> Annotated[Json, models.ListArtifactsResponse]:
    """Lists the artifacts of a run by name, in pages of at most 1000, including those that have expired or whose upload
    is not finished."""
    run_id = call.run_id if "runId" in call.params else None
    page = await services.artifacts.reading.artifact_page(call.params["taskId"], run_id, **place_of(call.query))
    return page_of("artifacts", page, _shown)


@ENDPOINTS(
    "artifactInfo",
    "GET /task/<taskId>/runs/<runId>/artifact-info/<name>",
    "Get Artifact Information From Run",
    scopes="queue:list-artifacts:<taskId>:<runId>",
)
@ENDPOINTS(
    "latestArtifactInfo",
    "GET /task/<taskId>/artifact-info/<name>",
    "Get Artifact Information From Latest Run",
    description="As artifactInfo, for the task's last run.",
    scopes="queue:list-artifacts:<taskId>",
)
async def artifact_info(services: QueueServices, call: Call) -> Annotated[Json, models.ArtifactResponse]:
    """Returns the properties of an artifact, without its content. Links are not followed."""
    task_id = call.params["taskId"]
    run_id = call.run_id if "runId" in call.params else await services.artifacts.reading.last_run(task_id)
    return _shown(await services.artifacts.reading.info(task_id, run_id, call.params["name"]))


@ENDPOINTS(
    "latestArtifact",
    "GET /task/<taskId>/artifact-content/<name>",
    "Get Artifact Content From Latest Run",
    description="As artifact, for the task's last run.",
    scopes=GET_SCOPES,
)
@ENDPOINTS(
    "artifact",
    "GET /task/<taskId>/runs/<runId>/artifact-content/<name>",
    "Get Artifact Content From Run",
    scopes=GET_SCOPES,
)
async def artifact(services: QueueServices, call: Call) -> Annotated[Json, models.ArtifactContentResponse]:
    """Returns how to read the content of an artifact, for programs that know the storage types. Links are followed."""
    task_id, name, authorise = call.params["taskId"], call.params["name"], call.authorise_with("names")
    reading = services.artifacts.reading
    # The last run is looked for before the scopes (trap 7).
    run_id = call.run_id if "runId" in call.params else await reading.last_run(task_id)
    await authorise([name])
    return await _content(services, await reading.find(task_id, run_id, name, authorise))


async def _redirection(services: QueueServices, stored: Stored) -> Answer:
    """Returns a 303 with the URL in header and body, as clients do not follow it; for `error`, a 424 without
    envelope."""
    artifact = stored.artifact
    headers = {STORAGE_TYPE: artifact.storage_type.value}
    if artifact.storage_type is StorageType.ERROR:
        return json_answer(_reason(artifact), 424, headers)
    url = await services.artifacts.reading.url(stored)
    if artifact.storage_type is StorageType.BLOB:
        headers |= _blob_headers(artifact)
    headers["location"] = url
    return json_answer({"storageType": artifact.storage_type.value, "url": url}, 303, headers)


async def _content(services: QueueServices, stored: Stored) -> Mapping[str, Any]:
    """Returns how to download the content. Today's clients know four storage types. `blob` and `azure` are reported as
    `s3`, which makes clients do the same: get a URL."""
    artifact = stored.artifact
    if artifact.storage_type is StorageType.ERROR:
        return {"storageType": artifact.storage_type.value, **_reason(artifact)}
    if artifact.storage_type is StorageType.OBJECT:
        return {
            "storageType": artifact.storage_type.value,
            "name": object_name(stored),
            "credentials": services.artifacts.objects.download_credentials(stored),
        }
    kind = StorageType.REFERENCE if artifact.storage_type is StorageType.REFERENCE else StorageType.S3
    return {"storageType": kind.value, "url": await services.artifacts.reading.url(stored)}


def _shown(artifact: Artifact) -> dict[str, Any]:
    shown = {
        "storageType": artifact.storage_type.value,
        "name": artifact.name,
        "expires": format_date(artifact.expires),
        "contentType": artifact.content_type,
    }
    return shown if artifact.known_length is None else {**shown, "contentLength": artifact.known_length}


def _reason(artifact: Artifact) -> dict[str, str]:
    return {"reason": str(artifact.details["reason"]), "message": str(artifact.details["message"])}


def _object_upload(services: QueueServices, created: CreatedArtifact) -> dict[str, Any]:
    assert created.loaded is not None, "an `object` is created with its task at hand"
    artifact, run = created.stored.artifact, created.loaded.task.runs[created.stored.run_id]
    return {
        "name": object_name(created.stored),
        "projectId": artifact.details["projectId"],
        "uploadId": artifact.details["uploadId"],
        "expires": format_date(artifact.expires),
        "credentials": services.artifacts.objects.upload_credentials(created.stored, run),
    }


def _blob_headers(artifact: Artifact) -> dict[str, str]:
    """Returns the headers by which clients of 2019 verify the content (contract 7.6)."""
    details = artifact.details
    found = {
        "content-sha256": details["contentSha256"],
        "content-length": details["contentLength"],
        "transfer-sha256": details.get("transferSha256", details["contentSha256"]),
        "transfer-length": details.get("transferLength", details["contentLength"]),
        "content-encoding": as_header(artifact.encoding, "identity"),
        "content-type": as_header(artifact.content_type, OPAQUE),
    }
    return {f"x-taskcluster-location-{name}": str(value) for name, value in found.items()}
