"""Uploads files of the task's folder as artifacts, and none outside of it, whatever links the task has made.

The worker asks createArtifact for a URL (contract 7), to which the file is PUT.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import mimetypes
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import aiohttp
from yarl import URL

from worker.archives import CHUNK
from worker.context import REFUSED, TRIES, Context, Json, TaskException, insist
from worker.text import plain

MOST_FILES = 100_000
"""Files of a directory that is an artifact."""
_INVALID = "invalid-resource-on-worker"

mimetypes.init()  # now: the task's user may not be allowed to read all files that it looks into


class Unusable(TaskException):
    """A path that leads to no file that may be uploaded. `reason` is one of an `error` artifact (contract 7.2)."""


async def upload_all(task: Context, wanted: Sequence[Json]) -> bool:
    """Uploads what the payload names; whether everything was there that must be, and is taken. Raises TROUBLE where one
    cannot be stored; REFUSED; OSError for a shortage."""
    waiting = _files(task.folder, wanted)

    async def work() -> bool:
        return all([await _upload(task, artifact, name, path) for artifact, name, path in waiting])

    return all(await asyncio.gather(*(work() for _ in range(8))))  # so many at a time


def _files(folder: Path, wanted: Sequence[Json]) -> Iterator[tuple[Json, str, str | Unusable]]:
    """Returns what is to be uploaded: its name, and its path, or why there is none."""
    for artifact in wanted:
        name, path = artifact.get("name") or artifact["path"], artifact["path"]
        if artifact["type"] == "file":
            yield artifact, name, path
            continue
        try:
            yield from ((artifact, f"{name}/{each}", f"{path}/{each}") for each in files_below(folder, path))
        except Unusable as problem:
            yield artifact, name, problem


async def _upload(task: Context, artifact: Json, name: str, path: str | Unusable) -> bool:
    """Uploads one file as it is now, or says in its place why it is not there. Returns whether all is well."""
    if not (name.isascii() and name.isprintable() and len(name) <= 1024):
        task.say(f"{name!r} cannot be uploaded: it cannot be an artifact's name")
        return False
    latest = task.begin["task"]["expires"]
    wanted = datetime.fromisoformat(artifact.get("expires", latest)).astimezone(UTC)
    expires = min(wanted.isoformat(timespec="milliseconds").replace("+00:00", "Z"), latest)
    try:
        try:
            with opened(task.folder, path) as file:
                await _store(task, artifact, name, expires, file)
            return True
        except Unusable as problem:
            task.say(f"Artifact {name} is missing: {problem}")
            if artifact.get("optional"):
                return True
            error = {"storageType": "error", "reason": problem.reason, "message": plain(str(problem))}
            await insist(f"creating {name}", lambda: task.create(name, **error, expires=expires), TRIES)
    except REFUSED as refused:
        if refused.status_code != HTTPStatus.BAD_REQUEST:
            raise
        task.say(f"Artifact {name} is refused: {refused}")
    return False


async def _store(task: Context, artifact: Json, name: str, expires: str, file: BinaryIO) -> None:
    """Uploads a file. createArtifact is called for each try: its URL is short-lived, and it may be called again."""
    content_type = artifact.get("contentType", mimetypes.guess_type(name)[0] or "application/octet-stream")
    request = {"storageType": "s3", "expires": expires, "contentType": content_type}
    request["contentLength"] = os.fstat(file.fileno()).st_size  # of the content, not of its encoding
    headers, timeout = {"Content-Type": content_type}, aiohttp.ClientTimeout(total=30 * 60)
    task.say(f"Uploading {name}")
    with contextlib.ExitStack() as stack:
        if artifact.get("contentEncoding") == "gzip":
            headers["Content-Encoding"] = "gzip"
            compressed = cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(dir=task.folder)))
            with gzip.GzipFile(fileobj=compressed, mode="wb", mtime=0) as packed:
                await asyncio.to_thread(shutil.copyfileobj, file, packed, CHUNK)
            compressed.flush()
            file = compressed

        async def put() -> None:
            url = URL((await task.create(name, **request))["putUrl"], encoded=True)
            file.seek(0)
            with os.fdopen(os.dup(file.fileno()), "rb") as data:  # which the client closes
                async with task.session.put(url, data=data, headers=headers, timeout=timeout) as stored:
                    stored.raise_for_status()

        await insist(f"uploading {name}", put, TRIES)


def opened(folder: Path, path: str | Unusable) -> BinaryIO:
    """Opens the file at a path in the folder. Links are followed if they stay inside. Raises Unusable."""
    if isinstance(path, Unusable):
        raise path
    return os.fdopen(_descriptor(folder, path, stat.S_ISREG, "file"), "rb")


def files_below(folder: Path, path: str) -> list[str]:
    """Returns all files below a directory, by their paths in the folder, sorted; links to directories are not followed.
    Raises Unusable."""
    top = _descriptor(folder, path, stat.S_ISDIR, "directory")
    try:
        walked = os.fwalk(".", dir_fd=top, follow_symlinks=False)
        names = (str(PurePosixPath(parent, name)) for parent, _, files, _ in walked for name in files)
        found = list(itertools.islice(names, MOST_FILES + 1))
    except (OSError, RecursionError):
        raise Unusable(_INVALID, f"{path} is too deep") from None
    finally:
        os.close(top)
    if len(found) > MOST_FILES:
        raise Unusable(_INVALID, f"{path} has more than {MOST_FILES} files")
    return sorted(found)


def _descriptor(folder: Path, path: str, is_right: Callable[[int], bool], kind: str) -> int:
    """Opens what a path in the folder leads to. Raises Unusable, also for what is of another kind.

    No process of the task is left by now that could put a link into its way; and this one may read nothing else.
    """
    root = os.path.realpath(folder)
    inside = os.path.realpath(folder / path)
    if os.path.commonpath([root, inside]) != root:
        raise Unusable(_INVALID, f"{path} leads out of the task's folder")
    try:
        # Without waiting for the other end of a named pipe.
        descriptor = os.open(inside, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        raise Unusable("file-not-readable-on-worker", f"{path} cannot be read") from None
    except (FileNotFoundError, NotADirectoryError):
        raise Unusable("file-missing-on-worker", f"{path} does not exist") from None
    except OSError as problem:
        raise Unusable(_INVALID, f"{path} cannot be opened: {problem.strerror}") from None
    if not is_right(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unusable(_INVALID, f"{path} is no {kind}")
    return descriptor
