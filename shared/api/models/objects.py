"""Schemas of the object service, as far as it is served (its own reference, v1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, StringConstraints

from shared.api.models.artifacts import ContentType, Length, Url
from shared.api.types import Closed, Date, ProjectId, SlugId, optional

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
