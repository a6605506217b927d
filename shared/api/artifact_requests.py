"""From a createArtifact request to an artifact (contract 7.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from shared.api.models.artifacts import (
    AzureRequest,
    BlobRequest,
    ErrorRequest,
    LinkRequest,
    ObjectRequest,
    ReferenceRequest,
    S3Request,
)
from shared.domain.artifacts import (
    DEFAULT_TYPE,
    MAX_BLOCK,
    MAX_PARTS,
    MAX_PUT,
    Artifact,
    StorageType,
    Upload,
    UploadMode,
    normal_type,
    upload_of,
)
from shared.domain.dates import parse_date
from shared.errors import InputError

Request = S3Request | ObjectRequest | AzureRequest | BlobRequest | ReferenceRequest | LinkRequest | ErrorRequest


def from_request(name: str, request: Request, mode: UploadMode, new_upload_id: Callable[[], str]) -> Artifact:
    """The artifact that is wanted. The project of an `object` is left to be filled in.

    Raises InputError for lengths that storage cannot take.
    """
    more: dict[str, Any]
    match request:
        case S3Request():
            length = request.contentLength
            more = {"upload": upload_of(mode, length), "content_length": length, "sent_length": length}
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
    return Artifact(
        name=name,
        storage_type=StorageType(request.storageType),
        content_type=DEFAULT_TYPE if isinstance(request, ErrorRequest) else normal_type(request.contentType),
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
        if len(sizes) > MAX_PARTS or max(sizes) > MAX_BLOCK:
            raise InputError(f"a `blob` has at most {MAX_PARTS} parts of at most {MAX_BLOCK} bytes")
        if sum(sizes) != transferred:
            raise InputError(f"the parts have {sum(sizes)} bytes together, not {transferred}")
        words = "\n".join(f"{part.sha256.lower()} {part.size}" for part in request.parts)
        details |= {"partCount": len(sizes), "partsHash": hashlib.sha256(words.encode()).hexdigest()}
    elif transferred > MAX_PUT:
        raise InputError(f"a `blob` of more than {MAX_PUT} bytes must be uploaded in parts")
    return {name: value for name, value in details.items() if value is not None}
