"""Artifacts as values, and the rules about them that need no storage (contract 7)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict

from shared.base.errors import InputError, RequestConflict
from shared.base.frozen import dataclass, replace
from shared.base.types import UploadMode
from shared.queue.tasks.rules import Run, State, Task

AFTER_EXCEPTION = timedelta(minutes=25)
"""How long after its end an exception run still takes artifacts (contract 7.1)."""
MAX_RUN = 1000
"""The largest number of a run."""
MAX_NAME = 1024
"""The most characters of a name."""
MAX_DETAILS = 15_000
"""The most characters of the text that belongs to an artifact's type: a URL, a name, or a message."""
MAX_STORED = 32_000
"""The most UTF-16 units of that text as JSON: a control character takes six, one beyond the basic plane takes two."""
MAX_BLOCK = 4000 << 20
"""The most bytes of one block, and therefore of a plain PUT that goes straight to a blob."""
MAX_PUT = 5000 << 20
"""The most bytes of a blob that is written with one request."""
MAX_UNFINISHED = 100
"""The most `blob` artifacts of a run that are being uploaded at a time."""
MAX_OF_TASK = 10_000
"""The most artifacts of a task, of all runs: they share a partition, and are listed and deleted with their task."""
COUNTED_EVERY = 50
"""Number of new artifacts of a task after which a process counts all of the task's artifacts. Each process may let a
task exceed `MAX_OF_TASK` by this number. A task with fewer artifacts never costs a count."""
MAX_PARTS = 50_000
"""The most blocks of a blob."""
OPAQUE = "application/octet-stream"
"""Content type of a blob whose declared type is not allowed in a header."""
DEFAULT_TYPE = "application/binary"


class StorageType(StrEnum):
    """The storage types of artifacts, which say where the content is."""

    S3 = "s3"
    OBJECT = "object"
    BLOB = "blob"
    AZURE = "azure"
    REFERENCE = "reference"
    LINK = "link"
    ERROR = "error"


ANNOUNCED_AT_ONCE = frozenset({StorageType.REFERENCE, StorageType.LINK, StorageType.ERROR})
"""Types that are complete when they are created (contract 7.5)."""
FINISHED_LATER = frozenset({StorageType.OBJECT, StorageType.BLOB})
"""Types that are present only after a call has finished their upload."""


class Upload(StrEnum):
    """The ways of uploading the content of an artifact."""

    NONE = "none"
    """The artifact has no content of its own."""
    DIRECT = "direct"
    """The client PUTs one block to storage, and this service commits it."""
    RELAY = "relay"
    """The client PUTs the content to this service."""
    CLIENT = "client"
    """The client writes the complete blob itself."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact of a run. Artifacts without a blob are complete from the start."""

    name: str
    storage_type: StorageType
    content_type: str
    expires: datetime
    version: str = ""
    """Distinguishes the content, and where it is stored, from earlier ones of the same name in the same run."""
    operation_id: str = ""
    """Id of the call that created the artifact, or did so again: a call whose answer was lost recognises its own."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the artifact's type needs: `url`; `artifact`; `reason` and `message`; hashes and lengths; `uploadId`."""
    upload: Upload = Upload.NONE
    content_length: int | None = None
    """Bytes of the content before any encoding, as the first request stated."""
    sent_length: int | None = None
    """Bytes of the content before any encoding, as the latest request stated. Content of another length is encoded."""
    is_present: bool = False
    """Whether the content is known to be there."""
    is_settled: bool = False
    """Whether `encoding` and `length` were determined after the content was uploaded."""
    encoding: str = ""
    """Content-Encoding of the blob."""
    length: int | None = None
    """Bytes of the content before any encoding, as this service determined them; None if unknown."""

    @property
    def has_blob(self) -> bool:
        return self.upload is not Upload.NONE

    @property
    def is_hidden(self) -> bool:
        """Whether readers are told that it does not exist, because its upload is not finished (trap 43)."""
        return self.storage_type in FINISHED_LATER and not self.is_present

    @property
    def known_length(self) -> int | None:
        """Bytes of the content: as its worker stated, else as this service determined them."""
        return self.length if self.content_length is None and self.is_settled else self.content_length


def check_stored(artifact: Artifact) -> None:
    """Raises InputError for an artifact that cannot be kept: its name, or what its type stores, is too large, or holds
    half a character (a lone surrogate)."""
    if len(artifact.name) > MAX_NAME:
        raise InputError(f"the name must not have more than {MAX_NAME} characters")
    if sum(len(str(value)) for value in artifact.details.values()) > MAX_DETAILS:
        raise InputError(f"the artifact's properties must not have more than {MAX_DETAILS} characters")
    try:
        (artifact.name + artifact.content_type).encode()
        stored = len(json.dumps(dict(artifact.details), ensure_ascii=False).encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        raise InputError("the artifact's name and properties must be valid Unicode") from None
    if stored > MAX_STORED:
        raise InputError(f"the artifact's properties must not take more than {MAX_STORED} characters as JSON")


def check_number(number: int) -> None:
    """Raises RequestConflict for a new artifact if the task has `number` artifacts already and that is the limit."""
    if number >= MAX_OF_TASK:
        raise RequestConflict(f"the task has {MAX_OF_TASK} artifacts or more: it can have no further ones")


def check_unfinished(run: Run) -> None:
    """Raises RequestConflict for too many `blob` artifacts at once that are not complete."""
    if len(run.unfinished) > MAX_UNFINISHED:
        raise RequestConflict(f"{MAX_UNFINISHED} `blob` artifacts are not complete yet: complete some of them")


def claimed_run(task: Task | None, run_id: int) -> Run:
    """Returns the run that an artifact is for. Raises InputError if there is none, or it was never claimed (trap 8)."""
    if task is None:
        raise InputError("there is no such task")
    if run_id > task.last_run_id:
        raise InputError(f"task {task.task_id} has no run {run_id}")
    run = task.runs[run_id]
    if run.worker_group is None or run.worker_id is None:
        raise InputError(f"run {run_id} of task {task.task_id} has not been claimed")
    return run


def check_run_takes_artifacts(run: Run, now: datetime) -> None:
    """Raises RequestConflict unless the run is running, or an exception of the last minutes (contract 7.1)."""
    if run.state is State.RUNNING:
        return
    if run.state is State.EXCEPTION and run.resolved is not None and now < run.resolved + AFTER_EXCEPTION:
        return
    raise RequestConflict(f"the run is {run.state.value}: artifacts can be created only while it is running")


def repeated(stored: Artifact, wanted: Artifact) -> Artifact:
    """Returns what a repeated creation makes of a stored artifact (contract 7.3). Raises RequestConflict. The content
    keeps its place as long as it is uploaded in the same way, and may be replaced there. An artifact that now refers to
    something else gets a new version, so that its event is no duplicate."""
    if wanted.storage_type is not StorageType.LINK and wanted.content_type != stored.content_type:
        raise RequestConflict("the artifact exists with another content type")
    if wanted.expires < stored.expires:
        raise RequestConflict("the artifact exists and expires later")
    to_link = (stored.storage_type, wanted.storage_type) == (StorageType.REFERENCE, StorageType.LINK)
    same = stored.storage_type is wanted.storage_type and (
        stored.storage_type is StorageType.REFERENCE or stored.details == wanted.details
    )
    if not same and not to_link:
        raise RequestConflict("the artifact exists with other content")
    if stored.storage_type is StorageType.BLOB and stored.is_present:
        return replace(stored, expires=wanted.expires, operation_id=wanted.operation_id)
    again = replace(wanted, content_type=stored.content_type, content_length=stored.content_length)
    if wanted.upload is not stored.upload or wanted.details != stored.details:
        return again
    if wanted.upload is Upload.RELAY:  # properties of the stored content stay known until it is replaced
        again = replace(
            again,
            is_present=stored.is_present,
            is_settled=stored.is_settled,
            encoding=stored.encoding,
            length=stored.length,
        )
    return replace(again, version=stored.version)


def upload_of(mode: UploadMode, content_length: int | None, relayed: int) -> Upload:
    """Returns how an `s3` artifact is uploaded; `content_length` in bytes is what its request states (design 8). The
    relay sees the content's encoding. Storage forgets it, and it can be told from the content only where the length is
    stated. So content without a stated length is relayed in every mode. `auto` relays what certainly has at most
    `relayed` bytes. Raises InputError for what no block can hold."""
    if content_length is None:
        return Upload.RELAY
    if content_length > MAX_BLOCK:
        raise InputError(f"an `s3` artifact must not have more than {MAX_BLOCK} bytes")
    if mode == "auto":
        # Encoding adds a header with a name at most, and less than a sixty-fourth to incompressible blocks.
        most_encoded = content_length + (content_length >> 6) + 1024
        return Upload.RELAY if most_encoded <= relayed else Upload.DIRECT
    return Upload.DIRECT if mode == "direct" else Upload.RELAY


def part_id(number: int) -> str:
    """Returns the id of the block that is one part of a `blob` artifact, before base64."""
    return f"part{number:05d}"


_UPLOAD_LIFE = timedelta(minutes=20)
_BYTES_PER_SECOND = 1 << 20
LONGEST_UPLOAD = timedelta(minutes=45)
"""Life of a URL for uploads whose length is not known, and the longest of all."""


def upload_life(content_length: int | None) -> timedelta:
    """Returns how long a URL for an upload of that size is needed: for retries, and for a slow line. Azure judges a
    request by when it begins, so a shorter life never ends an upload that is under way."""
    if content_length is None:
        return LONGEST_UPLOAD
    return min(_UPLOAD_LIFE + timedelta(seconds=content_length // _BYTES_PER_SECOND), LONGEST_UPLOAD)


UNDER_WAY = timedelta(hours=6)
"""How long after its URL has expired an upload that began before may still end."""
GZIP_HEAD = 1024
"""Bytes of content by which gzip is recognised."""
GZIP_TRAILER = 4
"""Bytes at the end of gzip data that state the length of the original."""


def begins_as_gzip(head: bytes, length: int) -> bool:
    """Returns whether content of `length` bytes can be unpacked, as far as its first `GZIP_HEAD` bytes tell."""
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        reader.decompress(head)
    except zlib.error:
        return False
    return reader.eof or len(head) == GZIP_HEAD < length


def is_made_of(content_length: int, trailer: bytes) -> bool:
    """Returns whether a gzip trailer states this length of the unpacked content (modulo 2^32)."""
    return content_length % (1 << 8 * GZIP_TRAILER) == int.from_bytes(trailer, "little")


def seen_length(length: int, encoding: str, trailer: bytes = b"") -> int | None:
    """Returns the size of content that takes `length` bytes in its encoding and ends with `trailer`; None: unknown."""
    if encoding in ("", "identity"):
        return length
    return int.from_bytes(trailer, "little") if encoding == "gzip" and len(trailer) == GZIP_TRAILER else None


def as_header(text: str, otherwise: str) -> str:
    """Returns a text that can stand in a header: `otherwise` if it is not printable ASCII, or only spaces."""
    text = text.strip()
    return text if text and text.isascii() and text.isprintable() else otherwise


def disposition(name: str) -> str:
    """Returns the Content-Disposition: shown in place, and saved under the last part of the name."""
    last = name.rstrip("/").rsplit("/", 1)[-1] or "artifact"
    quoted = last.replace("\\", "\\\\").replace('"', '\\"')
    return f'inline; filename="{quoted}"'


class BlobHeaders(TypedDict):
    """The headers of a blob, which say what its content is."""

    content_type: str
    content_encoding: str
    content_disposition: str


def blob_headers(name: str, content_type: str, encoding: str = "") -> BlobHeaders:
    """Returns the headers of the blob of an artifact of that name."""
    return BlobHeaders(
        content_type=as_header(content_type, OPAQUE),
        content_encoding=as_header(encoding, ""),
        content_disposition=disposition(name),
    )
