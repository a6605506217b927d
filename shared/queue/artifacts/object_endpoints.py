"""Endpoints of the object service that public clients use for `object` artifacts, and the upload route (design 8). The
upload route belongs to no API: createArtifact makes its URLs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, StringConstraints

from shared.api.answer import Answer, json_answer, redirection
from shared.api.endpoint import Call, Endpoints, Json
from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.base.types import Closed, Date, ProjectId, SlugId, optional
from shared.queue.artifacts.models import ContentType, Length, Url
from shared.queue.artifacts.objects import hashes_of
from shared.queue.artifacts.rows import Stored
from shared.queue.artifacts.upload_urls import RELAY_PREFIX
from shared.queue.services import QueueServices

Sha256 = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{64}$")]
Sha512 = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{128}$")]


class Hashes(Closed):
    """Hashes of an object's data, in hexadecimal."""

    sha256: Sha256 = optional()
    sha512: Sha512 = optional()


class DataInline(Closed):
    """The data itself, if it is small."""

    contentType: ContentType
    objectData: str
    """In base64."""


class PutUrlProposal(Closed):
    """The data is to be PUT to a URL."""

    contentType: ContentType
    contentLength: Length


class ProposedUploadMethods(Closed):
    """The ways in which the client could upload the data; unknown ones are not taken."""

    model_config = ConfigDict(extra="allow", strict=True)

    dataInline: DataInline = optional()
    putUrl: PutUrlProposal = optional()


class FinishUploadRequest(Closed):
    """The end of an upload."""

    projectId: ProjectId
    uploadId: SlugId
    hashes: Hashes = optional()


class CreateUploadRequest(FinishUploadRequest):
    """The beginning of an upload."""

    expires: Date
    proposedUploadMethods: ProposedUploadMethods


class PutUrlMethod(Closed):
    """Where to PUT the data, and with which headers."""

    url: Url
    expires: Date
    headers: dict[str, str]


class UploadMethod(Closed):
    """The way that was chosen; none when no proposal is possible."""

    dataInline: bool = optional()
    putUrl: PutUrlMethod = optional()


class CreateUploadResponse(Closed):
    """How to upload the data."""

    expires: Date
    projectId: ProjectId
    uploadId: SlugId
    uploadMethod: UploadMethod


class AcceptDownloadMethods(Closed):
    """The ways in which the client can download."""

    model_config = ConfigDict(extra="allow", strict=True)

    simple: bool = False
    getUrl: bool = False


class DownloadObjectRequest(Closed):
    """The beginning of a download."""

    acceptDownloadMethods: AcceptDownloadMethods


class DownloadObjectResponse(Closed):
    """Where the data is."""

    method: str
    url: Url
    expires: Date = optional()
    hashes: dict[str, str] = optional()


class GetObjectResponse(Closed):
    """What is known of an object."""

    projectId: ProjectId
    expires: Date
    hashes: dict[str, str]


_SENDS_CHUNKS = "Go-http-client/"
"""How the public Go client calls itself. It sends the data of objects without its length, whatever the headers are."""
ENDPOINTS = Endpoints[QueueServices]("Objects")


@ENDPOINTS(
    "createUpload",
    "PUT /upload/<name>",
    "Begin upload of a new object",
    scopes="object:upload:<projectId>:<name>",
    input=CreateUploadRequest,
)
async def create_upload(services: QueueServices, call: Call) -> Annotated[Json, CreateUploadResponse]:
    """Agrees on a method to upload the data of an `object` artifact. May be called again, to propose other methods or
    to renew a URL."""
    request, objects = call.payload(CreateUploadRequest), services.artifacts.objects
    await call.authorise({"projectId": request.projectId})
    stored = await objects.existing(call.params["name"])
    objects.check_upload(stored, request.projectId, request.uploadId)
    proposed, hashes = request.proposedUploadMethods, _hashes(request.hashes)
    method: dict[str, Any] = {}
    if proposed.dataInline:  # preferred, since then the upload is over
        await objects.put_inline(stored, _decoded(proposed.dataInline.objectData), hashes)
        method = {"dataInline": True}
    else:
        stored = await objects.add_hashes(stored, hashes)
    if proposed.putUrl and not method:
        is_chunked = call.headers.get("user-agent", "").startswith(_SENDS_CHUNKS)
        method = {"putUrl": await objects.put_url(stored, proposed.putUrl.contentLength, is_chunked=is_chunked)}
    return {
        "expires": format_date(stored.artifact.expires),
        "projectId": request.projectId,
        "uploadId": request.uploadId,
        "uploadMethod": method,
    }


@ENDPOINTS(
    "finishUpload",
    "POST /finish-upload/<name>",
    "Mark an upload as complete",
    scopes="object:upload:<projectId>:<name>",
    input=FinishUploadRequest,
)
async def finish_upload(services: QueueServices, call: Call) -> Mapping[str, Any]:
    """States that all data has been uploaded, and its hashes."""
    request, objects = call.payload(FinishUploadRequest), services.artifacts.objects
    await call.authorise({"projectId": request.projectId})
    stored = await objects.existing(call.params["name"])
    objects.check_upload(stored, request.projectId, request.uploadId)
    await objects.finish(stored, _hashes(request.hashes))
    return {}


@ENDPOINTS(
    "startDownload",
    "PUT /start-download/<name>",
    "Download object data",
    scopes="object:download:<name>",
    input=DownloadObjectRequest,
)
async def start_download(services: QueueServices, call: Call) -> Annotated[Answer, DownloadObjectResponse]:
    """Chooses one of the download methods that the client accepts."""
    accepted = call.payload(DownloadObjectRequest).acceptDownloadMethods
    stored, url = await _finished(services, call)
    if accepted.getUrl:
        expires = services.artifacts.reading.window()[1]
        return json_answer(
            {"method": "getUrl", "url": url, "expires": format_date(expires), "hashes": dict(hashes_of(stored))}
        )
    if accepted.simple:
        return json_answer({"method": "simple", "url": url})
    return json_answer({"message": "`getUrl` and `simple` are the ways to download"}, 406)


@ENDPOINTS("object", "GET /metadata/<name>", "Get an object's metadata", scopes="object:download:<name>")
async def get_object(services: QueueServices, call: Call) -> Annotated[Json, GetObjectResponse]:
    """Returns the properties of an object, without its data."""
    stored = await services.artifacts.objects.finished(call.params["name"])
    return {
        "projectId": stored.artifact.details["projectId"],
        "expires": format_date(stored.artifact.expires),
        "hashes": dict(hashes_of(stored)),
    }


@ENDPOINTS("download", "GET /download/<name>", "Get an object's data", scopes="object:download:<name>", success=303)
async def download(services: QueueServices, call: Call) -> Answer:
    """Redirects to the data of an object."""
    _, url = await _finished(services, call)
    return redirection(url)


async def _finished(services: QueueServices, call: Call) -> tuple[Stored, str]:
    stored = await services.artifacts.objects.finished(call.params["name"])
    return stored, await services.artifacts.reading.url(stored)


def _hashes(hashes: Hashes | None) -> dict[str, str]:
    return {} if hashes is None else hashes.model_dump(exclude_none=True)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("`objectData` is not base64") from None


UPLOAD_ENDPOINTS = Endpoints[QueueServices]("Artifacts")


@UPLOAD_ENDPOINTS(
    "uploadArtifact",
    "PUT /<taskId>/<runId>/<name>",
    "Upload Artifact",
    query={
        "type": r".*",
        "version": r"[A-Za-z0-9_-]{22}",
        "until": r"[0-9]{1,12}",
        "length": r"[0-9]{0,12}",
        "share": r"[0-9a-f]{22}",
        "signature": r".+",
    },
    share=lambda services, params, query: services.artifacts.urls.share(params, query),
    takes_content=True,
)
async def upload_artifact(services: QueueServices, call: Call) -> Answer:
    """Stores the content of an artifact, with its Content-Encoding."""
    encoding, stated = call.headers.get("content-encoding", ""), call.headers["content-length"]
    if stated != str(len(call.content)):
        raise InputError(f"{len(call.content)} bytes of the {stated} that were announced have arrived")
    await services.artifacts.urls.accept(call.params, call.query, call.content, encoding)
    return Answer(status=200, content_type="text/plain; charset=utf-8")  # without a body, as S3 does


UPLOAD_PREFIX = RELAY_PREFIX
