"""Endpoints of the object service, for `object` artifacts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from functions import service
from functions.http import Handler
from shared.api.answer import Answer, json_answer
from shared.api.call import Call
from shared.api.models.objects import CreateUploadRequest, DownloadObjectRequest, FinishUploadRequest, Hashes
from shared.domain.dates import format_date
from shared.errors import InputError
from shared.services import Services
from shared.storage.artifacts import Stored
from shared.usecases.objects import hashes_of

_SENDS_CHUNKS = "Go-http-client/"
"""How the public Go client calls itself. It sends the data of objects without its length, whatever it is told."""


async def create_upload(services: Services, call: Call) -> Mapping[str, Any]:
    """createUpload: inline data is preferred, since then the upload is over."""
    request, objects = call.payload(CreateUploadRequest), services.artifacts.objects
    await call.authorise({"projectId": request.projectId})
    stored = await objects.known(call.params["name"])
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


async def finish_upload(services: Services, call: Call) -> Mapping[str, Any]:
    """finishUpload."""
    request, objects = call.payload(FinishUploadRequest), services.artifacts.objects
    await call.authorise({"projectId": request.projectId})
    stored = await objects.known(call.params["name"])
    objects.check_upload(stored, request.projectId, request.uploadId)
    await objects.finish(stored, _hashes(request.hashes))
    return {}


async def start_download(services: Services, call: Call) -> Answer:
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


async def get_object(services: Services, call: Call) -> Mapping[str, Any]:
    """object: the metadata."""
    stored = await services.artifacts.objects.finished(call.params["name"])
    return {
        "projectId": stored.artifact.details["projectId"],
        "expires": format_date(stored.artifact.expires),
        "hashes": dict(hashes_of(stored)),
    }


async def download(services: Services, call: Call) -> Answer:
    """download: a redirection."""
    _, url = await _finished(services, call)
    return json_answer({"url": url}, 303, {"location": url})


async def _finished(services: Services, call: Call) -> tuple[Stored, str]:
    stored = await services.artifacts.objects.finished(call.params["name"])
    return stored, await services.artifacts.reading.url(stored)


def _hashes(hashes: Hashes | None) -> dict[str, str]:
    return {} if hashes is None else hashes.model_dump(exclude_none=True)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("`objectData` is not base64") from None


HANDLERS: Mapping[str, Handler] = {
    **service.HANDLERS,
    "createUpload": create_upload,
    "finishUpload": finish_upload,
    "startDownload": start_download,
    "object": get_object,
    "download": download,
}
