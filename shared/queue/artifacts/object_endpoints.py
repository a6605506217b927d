"""Endpoints of the object service that public clients use for `object` artifacts, and the upload route (design 8).

The upload route belongs to no API: createArtifact makes its URLs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, StringConstraints

from shared.api.answer import Answer, json_answer, redirection
from shared.api.endpoint import Call, Endpoint
from shared.base.dates import format_date
from shared.base.errors import InputError
from shared.base.types import Closed, Date, ProjectId, SlugId, optional
from shared.queue.artifacts.models import ContentType, Length, Url
from shared.queue.artifacts.objects import hashes_of
from shared.queue.artifacts.rows import Stored
from shared.queue.artifacts.services import ArtifactServices
from shared.queue.artifacts.upload_urls import RELAY_PREFIX

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


class CreateUploadRequest(Closed):
    """The beginning of an upload."""

    projectId: ProjectId
    uploadId: SlugId
    expires: Date
    hashes: Hashes = optional()
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


class FinishUploadRequest(Closed):
    """The end of an upload."""

    projectId: ProjectId
    uploadId: SlugId
    hashes: Hashes = optional()


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


async def create_upload(services: ArtifactServices, call: Call) -> Mapping[str, Any]:
    """createUpload: inline data is preferred, since then the upload is over."""
    request, objects = call.payload(CreateUploadRequest), services.artifacts.objects
    await call.authorise({"projectId": request.projectId})
    stored = await objects.existing(call.params["name"])
    objects.check_upload(stored, request.projectId, request.uploadId)
    proposed, hashes = request.proposedUploadMethods, _hashes(request.hashes)
    method: dict[str, Any] = {}
    if proposed.dataInline:
        await objects.put_inline(stored, _decoded(proposed.dataInline.objectData), hashes)
        method = {"dataInline": True}
    else:
        stored = await objects.add_hashes(stored, hashes)
    if proposed.putUrl and not method:
        is_chunked = call.headers.get("user-agent", "").startswith(_SENDS_CHUNKS)
        put = await objects.put_url(stored, proposed.putUrl.contentLength, is_chunked=is_chunked)
        method = {"putUrl": {"url": put.url, "expires": format_date(put.expires), "headers": put.headers}}
    return {
        "expires": format_date(stored.artifact.expires),
        "projectId": request.projectId,
        "uploadId": request.uploadId,
        "uploadMethod": method,
    }


async def finish_upload(services: ArtifactServices, call: Call) -> Mapping[str, Any]:
    """finishUpload."""
    request, objects = call.payload(FinishUploadRequest), services.artifacts.objects
    await call.authorise({"projectId": request.projectId})
    stored = await objects.existing(call.params["name"])
    objects.check_upload(stored, request.projectId, request.uploadId)
    await objects.finish(stored, _hashes(request.hashes))
    return {}


async def start_download(services: ArtifactServices, call: Call) -> Answer:
    """startDownload: 406 when the client accepts no way that there is."""
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


async def get_object(services: ArtifactServices, call: Call) -> Mapping[str, Any]:
    """object: the metadata."""
    stored = await services.artifacts.objects.finished(call.params["name"])
    return {
        "projectId": stored.artifact.details["projectId"],
        "expires": format_date(stored.artifact.expires),
        "hashes": dict(hashes_of(stored)),
    }


async def download(services: ArtifactServices, call: Call) -> Answer:
    """download: a redirection."""
    _, url = await _finished(services, call)
    return redirection(url)


async def _finished(services: ArtifactServices, call: Call) -> tuple[Stored, str]:
    stored = await services.artifacts.objects.finished(call.params["name"])
    return stored, await services.artifacts.reading.url(stored)


def _hashes(hashes: Hashes | None) -> dict[str, str]:
    return {} if hashes is None else hashes.model_dump(exclude_none=True)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("`objectData` is not base64") from None


PREFIX = "/api/object/v1"
_CATEGORY = "Objects"

ENDPOINTS: tuple[Endpoint[ArtifactServices], ...] = (
    Endpoint(
        name="createUpload",
        method="PUT",
        route="/upload/<name>",
        handler=create_upload,
        title="Begin upload of a new object",
        description="Agrees on a method to upload the data of an `object` artifact. May be called again, to propose "
        "other methods or to renew a URL.",
        category=_CATEGORY,
        scopes="object:upload:<projectId>:<name>",
        input=CreateUploadRequest,
        output=CreateUploadResponse,
    ),
    Endpoint(
        name="finishUpload",
        method="POST",
        route="/finish-upload/<name>",
        handler=finish_upload,
        title="Mark an upload as complete",
        description="States that all data has been uploaded, and its hashes.",
        category=_CATEGORY,
        scopes="object:upload:<projectId>:<name>",
        input=FinishUploadRequest,
    ),
    Endpoint(
        name="startDownload",
        method="PUT",
        route="/start-download/<name>",
        handler=start_download,
        title="Download object data",
        description="Chooses one of the download methods that the client accepts.",
        category=_CATEGORY,
        scopes="object:download:<name>",
        input=DownloadObjectRequest,
        output=DownloadObjectResponse,
    ),
    Endpoint(
        name="object",
        method="GET",
        route="/metadata/<name>",
        handler=get_object,
        title="Get an object's metadata",
        description="Returns the properties of an object, without its data.",
        category=_CATEGORY,
        scopes="object:download:<name>",
        output=GetObjectResponse,
    ),
    Endpoint(
        name="download",
        method="GET",
        route="/download/<name>",
        handler=download,
        title="Get an object's data",
        description="Redirects to the data of an object.",
        category=_CATEGORY,
        scopes="object:download:<name>",
        success=303,
    ),
)


async def upload_artifact(services: ArtifactServices, call: Call) -> Answer:
    """Stores the body; returns 200 without a body, as S3 does. Raises InputError for a body that is not the one which
    was sent.
    """
    encoding, stated = call.headers.get("content-encoding", ""), call.headers["content-length"]
    if stated != str(len(call.content)):
        raise InputError(f"{len(call.content)} bytes of the {stated} that were announced have arrived")
    await services.artifacts.relay.put(call.params, call.query, call.content, encoding)
    return Answer(status=200, content_type="text/plain; charset=utf-8")


UPLOAD_PREFIX = RELAY_PREFIX

UPLOAD_ENDPOINTS: tuple[Endpoint[ArtifactServices], ...] = (
    Endpoint(
        name="uploadArtifact",
        method="PUT",
        route="/<taskId>/<runId>/<name>",
        handler=upload_artifact,
        title="Upload Artifact",
        description="Stores the content of an artifact, with its Content-Encoding.",
        category="Artifacts",
        query={
            "type": r".*",
            "version": r"[A-Za-z0-9_-]{22}",
            "until": r"[0-9]{1,12}",
            "length": r"[0-9]{0,12}",
            "share": r"[0-9a-f]{22}",
            "signature": r".+",
        },
        share=lambda services, params, query: services.artifacts.relay.share(params, query),
        takes_content=True,
    ),
)
