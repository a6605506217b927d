"""Schemas of artifacts, and from a createArtifact request to an artifact (contract 2.3, 7.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, RootModel, StringConstraints

from shared.base.dates import parse_date
from shared.base.errors import InputError
from shared.base.types import Closed, Date, OneOf, ProjectId, SlugId, Unique, UploadMode, optional, page_model
from shared.queue.artifacts import rules
from shared.queue.artifacts.rules import Artifact, StorageType, Upload
from shared.queue.claims.endpoints import Credentials

Length = Annotated[int, Field(ge=0)]
ContentType = Annotated[str, StringConstraints(max_length=255)]
Hash = Annotated[str, StringConstraints(pattern=r"^[a-fA-F0-9]{64}$")]
Url = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$"),
    Field(json_schema_extra={"format": "uri"}),
]
PrintableName = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]+$")]
Reason = Literal[
    "file-missing-on-worker", "invalid-resource-on-worker", "too-large-file-on-worker", "file-not-readable-on-worker"
]
MIN_PART = 5_000_000
"""Bytes of every part of a `blob` but the last."""


def _parts(parts: list[Part]) -> list[Part]:
    if any(part.size < MIN_PART for part in parts[:-1]):
        raise ValueError(f"every part but the last has at least {MIN_PART} bytes")
    return parts


class _Content(Closed):
    expires: Date
    contentType: ContentType


class S3Request(_Content):
    """Content that is PUT to a URL."""

    storageType: Literal["s3"]
    contentLength: Length = optional()


class ObjectRequest(_Content):
    """Content that is uploaded as an object."""

    storageType: Literal["object"]
    contentLength: Length = optional()


class AzureRequest(_Content):
    """Content that is written with Azure's block-blob API."""

    storageType: Literal["azure"]


class Part(Closed):
    """A part of a multipart upload."""

    sha256: Hash
    size: Annotated[int, Field(ge=0)]


class BlobRequest(_Content):
    """Content with hashes, in one or several requests."""

    storageType: Literal["blob"]
    contentEncoding: ContentType = optional()
    contentSha256: Hash
    contentLength: Length
    transferSha256: Hash = optional()
    transferLength: Length = optional()
    parts: Annotated[list[Part], Field(min_length=1), AfterValidator(_parts)] = optional()


class ReferenceRequest(_Content):
    """Content that is elsewhere."""

    storageType: Literal["reference"]
    url: Url


class LinkRequest(Closed):
    """Another artifact of the same run."""

    storageType: Literal["link"]
    expires: Date
    contentType: ContentType = rules.DEFAULT_TYPE
    artifact: str


class ErrorRequest(Closed):
    """An artifact without content, with the reason for which there is none."""

    storageType: Literal["error"]
    expires: Date
    reason: Reason
    message: Annotated[str, StringConstraints(max_length=4096)]


ArtifactRequest = S3Request | ObjectRequest | AzureRequest | BlobRequest | ReferenceRequest | LinkRequest | ErrorRequest


class PostArtifactRequest(RootModel[Annotated[ArtifactRequest, Field(discriminator="storageType")]]):
    """An artifact to create, by its storage type."""


class PutUrlResponse(Closed):
    """Where to PUT the content, and until when."""

    storageType: Literal["s3", "azure"]
    contentType: ContentType
    expires: Date
    putUrl: Url


class ObjectResponse(Closed):
    """How to upload the object, and the credentials for it."""

    storageType: Literal["object"]
    name: PrintableName
    projectId: ProjectId
    uploadId: SlugId
    expires: Date
    credentials: Credentials


class UploadRequest(Closed):
    """One request of an upload."""

    url: Url
    method: Literal["PUT"]
    headers: dict[str, str]


class BlobResponse(Closed):
    """The requests that upload the content, and until when they can be made."""

    storageType: Literal["blob"]
    expires: Date
    requests: list[UploadRequest]


class CreatedResponse(Closed):
    """The artifact is complete."""

    storageType: Literal["reference", "link", "error"]


class PostArtifactResponse(
    RootModel[
        Annotated[PutUrlResponse | ObjectResponse | BlobResponse | CreatedResponse, Field(discriminator="storageType")]
    ]
):
    """How to go on with an artifact that was created."""


class FinishRequest(Closed):
    """The upload of an `object`."""

    uploadId: SlugId


class CompleteRequest(Closed):
    """The ETags with which storage answered the uploads of a `blob`, in their order."""

    etags: Annotated[list[str], Field(min_length=1)]


class FinishArtifactRequest(RootModel[FinishRequest | CompleteRequest]):
    """The end of an upload: `uploadId` for an `object`, `etags` for a `blob`."""


class ArtifactResponse(Closed):
    """What is known of an artifact."""

    storageType: Annotated[str, OneOf(tuple(StorageType))]
    name: Annotated[str, StringConstraints(max_length=1024)]
    expires: Date
    contentType: ContentType
    contentLength: Length = optional()


class GetArtifactResponse(Closed):
    """The body of a redirection."""

    storageType: str
    url: Url


class UrlContent(Closed):
    """Content at a URL."""

    storageType: Literal["s3", "reference"]
    url: Url


class ObjectContent(Closed):
    """Content that is downloaded as an object."""

    storageType: Literal["object"]
    name: PrintableName
    credentials: Credentials


class ErrorContent(Closed):
    """An artifact without content, with the reason for which there is none."""

    storageType: Literal["error"]
    reason: str
    message: str


class ArtifactContentResponse(
    RootModel[Annotated[UrlContent | ObjectContent | ErrorContent, Field(discriminator="storageType")]]
):
    """How to get at the content of an artifact."""


ListArtifactsResponse = page_model(
    "ListArtifactsResponse", "A page of a run's artifacts.", artifacts=Unique[ArtifactResponse]
)


def from_request(
    name: str, request: ArtifactRequest, mode: UploadMode, relayed: int, new_upload_id: Callable[[], str]
) -> Artifact:
    """Returns the artifact that is wanted. The project of an `object` is filled in later. `upload_of` tells of
    `relayed`. Raises InputError for lengths that storage cannot take."""
    more: dict[str, Any]
    match request:
        case S3Request():
            length = request.contentLength
            more = {"upload": rules.upload_of(mode, length, relayed), "content_length": length, "sent_length": length}
        case ObjectRequest():
            more = {
                "upload": Upload.CLIENT,
                "content_length": request.contentLength,
                "details": {"uploadId": new_upload_id()},
            }
        case AzureRequest():
            more = {"upload": Upload.CLIENT}
        case BlobRequest():
            more = {
                "upload": Upload.CLIENT,
                "content_length": request.contentLength,
                "encoding": request.contentEncoding or "",
                "details": _blob_details(request),
            }
        case ReferenceRequest():
            more = {"details": {"url": request.url}}
        case LinkRequest():
            more = {"details": {"artifact": request.artifact}}
        case ErrorRequest():
            more = {"details": {"reason": request.reason, "message": request.message}}
    # Storage refuses, or forgets, what a header cannot end with.
    content_type = rules.DEFAULT_TYPE if isinstance(request, ErrorRequest) else request.contentType.strip()
    return Artifact(
        name=name,
        storage_type=StorageType(request.storageType),
        content_type=content_type,
        expires=parse_date(request.expires),
        **more,
    )


def _blob_details(request: BlobRequest) -> dict[str, Any]:
    transferred = request.contentLength if request.transferLength is None else request.transferLength
    details: dict[str, Any] = {
        "contentSha256": request.contentSha256,
        "contentLength": request.contentLength,
        "contentEncoding": request.contentEncoding,
        "transferSha256": request.transferSha256,
        "transferLength": request.transferLength,
    }
    if request.parts:
        sizes = [part.size for part in request.parts]
        if len(sizes) > rules.MAX_PARTS or max(sizes) > rules.MAX_BLOCK:
            raise InputError(f"a `blob` has at most {rules.MAX_PARTS} parts of at most {rules.MAX_BLOCK} bytes")
        if sum(sizes) != transferred:
            raise InputError(f"the parts have {sum(sizes)} bytes together, not {transferred}")
        words = "\n".join(f"{part.sha256.lower()} {part.size}" for part in request.parts)
        details |= {"partCount": len(sizes), "partsHash": hashlib.sha256(words.encode()).hexdigest()}
    elif transferred > rules.MAX_PUT:
        raise InputError(f"a `blob` of more than {rules.MAX_PUT} bytes must be uploaded in parts")
    return {name: value for name, value in details.items() if value is not None}
