"""Puts files, directories and caches into the task's folder before its commands run, and takes caches back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from worker.archives import BadContent, decompress, unpack
from worker.caches import Cache, Caches
from worker.content import Contents, describe
from worker.payload import (
    ArtifactContent,
    FileMount,
    MalformedPayload,
    Payload,
    ReadOnlyDirectory,
    WritableDirectoryCache,
)

CACHE_SCOPE = "generic-worker:cache:"


class MountFailed(Exception):
    """A mount is not possible as the payload asks for it: the task has failed."""


def check(payload: Payload, definition: Any) -> None:
    """What the payload needs of the rest of the definition, as for generic-worker. Raises MalformedPayload.

    A cache needs its scope; a task whose artifact is mounted must be a dependency.
    """
    problems = []
    for number, mount in enumerate(payload.mounts):
        if isinstance(mount, WritableDirectoryCache):
            scope = CACHE_SCOPE + mount.cache_name
            if not _satisfied(definition.get("scopes", ()), scope):
                problems.append(f"payload.mounts[{number}]: the task needs the scope {scope}")
        if isinstance(mount.content, ArtifactContent) and mount.content.task_id not in definition.get(
            "dependencies", ()
        ):
            problems.append(f"payload.mounts[{number}]: task.dependencies must include {mount.content.task_id}")
    if problems:
        raise MalformedPayload("\n".join(problems))


def _satisfied(scopes: Sequence[str], needed: str) -> bool:
    return any(needed.startswith(scope[:-1]) if scope.endswith("*") else scope == needed for scope in scopes)


class Mounts:
    """The mounts of one task."""

    def __init__(self, contents: Contents, caches: Caches, say: Callable[[str], None]) -> None:
        """`say` adds a line to the task's log."""
        self._contents = contents
        self._caches = caches
        self._say = say
        self._held: list[Cache] = []

    @asynccontextmanager
    async def placed(
        self, mounts: Sequence[FileMount | WritableDirectoryCache | ReadOnlyDirectory], home: Path, folder: Path
    ) -> AsyncIterator[None]:
        """All in place in the task's folder, caches for the time of the `with`. `home` is for temporary files.

        Raises MountFailed; NotReached when content cannot be fetched now; OSError.
        """
        with ExitStack() as caches:
            for mount in mounts:
                where = mount.file if isinstance(mount, FileMount) else mount.directory
                _check_place(folder, where)
                try:
                    if isinstance(mount, WritableDirectoryCache):
                        await self._place_cache(mount, home, folder / where, caches)
                    else:
                        await self._place(mount, home, folder / where)
                except BadContent as problem:
                    what = describe(mount.content) if mount.content is not None else "cache"
                    raise MountFailed(f"{where} cannot be mounted, {what}: {problem}") from None
                except (FileExistsError, NotADirectoryError, IsADirectoryError):
                    raise MountFailed(f"{where} cannot be mounted: another mount is in its place") from None
            yield

    def purge(self) -> None:
        """Forgets the caches that the task has."""
        for cache in self._held:
            cache.purge()

    async def _place(self, mount: FileMount | ReadOnlyDirectory, home: Path, place: Path) -> None:
        self._say(f"Mounting {place.name}: {describe(mount.content)}")
        fetched = home / "mount"
        await self._contents.fetch(mount.content, fetched)
        if isinstance(mount, FileMount):
            _make_way(place)
            await asyncio.to_thread(decompress, fetched, mount.format, place)
        else:
            await asyncio.to_thread(unpack, fetched, mount.format, place)
        fetched.unlink()

    async def _place_cache(self, mount: WritableDirectoryCache, home: Path, place: Path, caches: ExitStack) -> None:
        _make_way(place)
        cache = caches.enter_context(self._caches.one(mount.cache_name))
        self._say(f"Cache {mount.cache_name} at {mount.directory}: {'new' if cache.is_new else 'as it was left'}")
        await asyncio.to_thread(cache.move_in, place)
        self._held.append(cache)
        if cache.is_new and mount.content is not None and mount.format is not None:
            fetched = home / "mount"
            try:
                await self._contents.fetch(mount.content, fetched)
                await asyncio.to_thread(unpack, fetched, mount.format, place)
            except BaseException:
                cache.purge()  # half of the content is none
                raise
            fetched.unlink()


def _check_place(folder: Path, where: str) -> None:
    """Raises MountFailed where a link leads out of the folder: a cache may hold some that an earlier task has made."""
    if not Path(os.path.realpath(folder / where)).is_relative_to(os.path.realpath(folder)):
        raise MountFailed(f"{where} cannot be mounted: a link leads out of the task's folder")


def _make_way(place: Path) -> None:
    """Makes the directories above. Raises FileExistsError where there is something already."""
    if place.exists():
        raise FileExistsError(place)
    place.parent.mkdir(parents=True, exist_ok=True)
