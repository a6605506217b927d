"""How workers and clients send a file as an artifact: what they state, how they encode it, and where they put it."""

from __future__ import annotations

import base64
import gzip
import io
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shared.base.dates import format_date
from shared.base.types import UploadMode
from shared.queue.artifacts import rules
from shared.queue.artifacts.creating import CreatedArtifact
from shared.queue.artifacts.models import PostArtifactRequest, from_request
from shared.queue.artifacts.objects import object_name
from shared.queue.artifacts.rules import Upload
from shared.queue.artifacts.upload_urls import RELAY_PREFIX
from tests.simulator.artifact_scenarios import relay_to
from tests.simulator.situations import A
from tests.simulator.world import World

RELAY_LIMIT = 8192
"""Bytes: small, so that files on both sides of it are quickly made."""
INLINE = 8192
"""Bytes from which the clients' object helpers no longer send data inside of their call."""
_COMPRESSED = frozenset({".7z", ".br", ".bz2", ".gz", ".jar", ".png", ".tgz", ".xz", ".zip", ".zst"})
"""Endings of names whose files generic-worker does not encode."""


@dataclass(frozen=True)
class File:
    """On the worker's disk."""

    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True)
class Sent:
    """What left the worker."""

    body: bytes
    encoding: str
    stated: int | None
    """The length that was stated."""
    is_direct: bool = False
    """Whether it went straight into storage without its encoding."""


def pack(file: File, *, has_name: bool = True) -> bytes:
    """gzip, with or without the name of the file in its header."""
    into = io.BytesIO()
    name = file.name.rsplit("/", 1)[-1] if has_name else ""
    with gzip.GzipFile(name, "wb", fileobj=into, mtime=0) as packed:
        packed.write(file.content)
    return into.getvalue()


def of_generic_worker(file: File) -> Sent:
    """Its language leaves a length of 0 out. What it does not encode it says to be `identity`."""
    stated = len(file.content) or None
    if f".{file.name.rsplit('.', 1)[-1]}" in _COMPRESSED:
        return Sent(file.content, "identity", stated)
    return Sent(pack(file), "gzip", stated)


def of_scriptworker(file: File) -> Sent:
    """It encodes texts; what is encoded by its name it sends as it is, and says so."""
    content_type, encoding = mimetypes.guess_type(file.name)
    if file.name.endswith((".tar.gz", ".tgz")):
        encoding = None
    elif encoding is None and (content_type or "").startswith("text/"):
        return Sent(pack(file), "gzip", None)
    return Sent(file.content, encoding or "", None)


def of_reference_worker(file: File) -> Sent:
    """The one in worker/: it encodes what the task asks it to."""
    if len(file.name) % 2:
        return Sent(pack(file, has_name=False), "gzip", len(file.content))
    return Sent(file.content, "", len(file.content))


def of_old_worker(file: File) -> Sent:
    """One of 2019, which encodes everything and states nothing."""
    return Sent(pack(file, has_name=False), "gzip", None)


def plain(file: File) -> Sent:
    """As it is on the disk."""
    return Sent(file.content, "", len(file.content))


Send = Callable[[World, File, UploadMode], Any]


def bare_put(prepared: Callable[[File], Sent]) -> Send:
    """An `s3` artifact, PUT to the URL that createArtifact answers, with no header but type and encoding."""

    async def send(world: World, file: File, mode: UploadMode) -> Sent:
        sent = prepared(file)
        created = await _create(world, file, mode, "s3", contentLength=sent.stated)
        url = await world.services.artifacts.urls.put_url(A, 0, created.artifact, created.upload_until, created.etag)
        if created.artifact.upload is Upload.RELAY:
            assert RELAY_PREFIX in url
            await relay_to(world.services, url, sent.body, sent.encoding)
            return sent
        container, path, query = _place(url)
        await world.memory.storage.blobs.put_block(
            container, path, base64.b64decode(query["blockid"]).decode(), sent.body
        )
        return Sent(sent.body, sent.encoding, sent.stated, is_direct=True)

    return send


async def object_helper(world: World, file: File, mode: UploadMode) -> Sent:
    """An `object`, as the public clients' helpers upload it."""
    objects, sent = world.services.artifacts.objects, Sent(file.content, "", len(file.content))
    created = await _create(world, file, mode, "object", contentLength=sent.stated or None)
    name = object_name(A, 0, file.name)
    stored = await objects.existing(name)
    if len(file.content) < INLINE:
        await objects.put_inline(stored, file.content, {})
    else:
        put = await objects.put_url(stored, len(file.content), is_chunked=False)
        await _put_blob(world, put.url, put.headers, file.content)
    await objects.finish(await objects.existing(name), {"sha256": "0" * 64})
    await world.services.artifacts.finishing.finish(A, 0, file.name, created.artifact.details["uploadId"])
    return sent


def blob_of_2019(*, encoding: str) -> Send:
    """A `blob`, which states its encoding, its hashes and both lengths."""

    async def send(world: World, file: File, mode: UploadMode) -> Sent:
        body = pack(file) if encoding == "gzip" else file.content
        created = await _create(
            world,
            file,
            mode,
            "blob",
            contentLength=len(file.content),
            contentSha256="0" * 64,
            contentEncoding=encoding,
            transferLength=len(body),
            transferSha256="1" * 64,
        )
        (request,) = await world.services.artifacts.urls.requests(A, 0, created.artifact, [], created.upload_until)
        await _put_blob(world, request.url, request.headers, body)
        container, path, _ = _place(request.url)
        etag = world.memory.blobs.blobs(container)[path].etag
        await world.services.artifacts.finishing.complete(A, 0, file.name, [etag])
        return Sent(body, encoding, len(file.content))

    return send


async def azure_client(world: World, file: File, mode: UploadMode) -> Sent:
    """An `azure` artifact, written by a client of Blob Storage."""
    created = await _create(world, file, mode, "azure")
    url = await world.services.artifacts.urls.put_url(A, 0, created.artifact, created.upload_until, created.etag)
    await _put_blob(world, url, {"x-ms-blob-content-encoding": "gzip"}, pack(file))
    return Sent(pack(file), "gzip", None)


SENDERS: Mapping[str, Send] = {
    "generic-worker": bare_put(of_generic_worker),
    "scriptworker": bare_put(of_scriptworker),
    "the worker of this project": bare_put(of_reference_worker),
    "a worker of 2019": bare_put(of_old_worker),
    "plain": bare_put(plain),
    "object": object_helper,
    "blob, encoded": blob_of_2019(encoding="gzip"),
    "blob, plain": blob_of_2019(encoding="identity"),
    "azure": azure_client,
}


async def _create(world: World, file: File, mode: UploadMode, storage_type: str, **fields: Any) -> CreatedArtifact:
    (task,) = world.tasks().values()
    request = PostArtifactRequest.model_validate(
        {
            "storageType": storage_type,
            "contentType": file.content_type,
            "expires": format_date(task.expires),
            **{name: value for name, value in fields.items() if value is not None},
        }
    ).root
    wanted = from_request(file.name, request, mode, RELAY_LIMIT, world.slugid)
    return await world.services.artifacts.creation.create(A, 0, wanted)


async def _put_blob(world: World, url: str, headers: Mapping[str, str], content: bytes) -> None:
    container, path, _ = _place(url)
    await world.memory.storage.blobs.upload(
        container, path, content, content_type="", content_encoding=headers.get("x-ms-blob-content-encoding", "")
    )


async def served(world: World, name: str) -> tuple[bytes, str]:
    """The bytes and the encoding at the URL to which a reader is sent."""

    async def everybody(names: object) -> None:
        assert names

    stored = await world.services.artifacts.reading.find(A, 0, name, everybody)
    container, path, _ = _place(await world.services.artifacts.reading.url(stored))
    blob = world.memory.blobs.blobs(container)[path]
    return blob.content, blob.content_encoding


def cannot_be_told(sent: Sent) -> bool:
    """The one case in which the content does not tell whether it was encoded: put as it is, straight into storage, it
    is the gzip of something that is as long as itself."""
    return (
        sent.is_direct
        and sent.encoding in ("", "identity")
        and sent.stated == len(sent.body)
        and rules.begins_as_gzip(sent.body[: rules.GZIP_HEAD], len(sent.body))
        and rules.is_made_of(len(sent.body), sent.body[-rules.GZIP_TRAILER :])
    )


def _place(url: str) -> tuple[str, str, Mapping[str, str]]:
    """Container, path and query of a URL of storage."""
    parts = urlsplit(url)
    container, path = parts.path.lstrip("/").split("/", 1)
    return container, path, {name: values[0] for name, values in parse_qs(parts.query).items()}
