"""Puts files, directories and caches into the task's folder before its commands run, and takes caches back."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from worker.archives import BadContent
from worker.caches import Cache, Caches
from worker.content import Contents, describe
from worker.helper import Helper, helping
from worker.patience import to_the_end
from worker.payload import (
    ArtifactContent,
    FileMount,
    MalformedPayload,
    Payload,
    ReadOnlyDirectory,
    WritableDirectoryCache,
)
from worker.shortage import is_shortage
from worker.users import User

CACHE_SCOPE = "generic-worker:cache:"


class MountFailed(Exception):
    """A mount is not possible as the payload asks for it: the task has failed."""


def check(payload: Payload, definition: Any) -> None:
    """Checks the payload against the rest of the definition, as generic-worker does. Raises MalformedPayload.

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

    def __init__(
        self,
        contents: Contents,
        caches: Caches,
        say: Callable[[str], None],
        user: User | None,
        locks: Sequence[int],
    ) -> None:
        """`say` adds a line to the task's log. `user`: whose the files become; None: the worker's own.

        `locks`: of the run's folder and the user.
        """
        self._contents = contents
        self._caches = caches
        self._say = say
        self._user = user
        self._locks = locks
        self._held: list[Cache] = []

    @asynccontextmanager
    async def placed(
        self, mounts: Sequence[FileMount | WritableDirectoryCache | ReadOnlyDirectory], home: Path, folder: Path
    ) -> AsyncIterator[None]:
        """All in place in the task's folder, caches for the time of the `with`. `home` is for temporary files.

        Raises MountFailed; NotReached when content cannot be fetched now; OSError.
        """
        with ExitStack() as caches:
            if mounts:
                async with helping(folder, self._user, self._locks) as helper:
                    for mount in mounts:
                        with _failing(mount):
                            if isinstance(mount, WritableDirectoryCache):
                                await self._place_cache(mount, home, folder, helper, caches)
                            else:
                                await self._place(mount, home, helper)
            yield

    def purge(self) -> None:
        """Forgets the caches that the task has."""
        for cache in self._held:
            cache.purge()

    async def _place(self, mount: FileMount | ReadOnlyDirectory, home: Path, helper: Helper) -> None:
        self._say(f"Mounting {_where(mount)}: {describe(mount.content)}")
        with _fetched(home) as content:
            await self._contents.fetch(mount.content, content)
            if isinstance(mount, FileMount):
                await helper.write(content, mount.format, mount.file)
            else:
                await helper.unpack(content, mount.format, mount.directory)

    async def _place_cache(
        self, mount: WritableDirectoryCache, home: Path, folder: Path, helper: Helper, caches: ExitStack
    ) -> None:
        await helper.make_way(mount.directory)
        cache = caches.enter_context(self._caches.one(mount.cache_name, self._user))
        self._say(f"Cache {mount.cache_name} at {mount.directory}: {'new' if cache.is_new else 'as it was left'}")
        # The move is finished even if this is cancelled: half way, the cache could not be moved back.
        await to_the_end(asyncio.to_thread(cache.move_in, folder / mount.directory))
        self._held.append(cache)
        if cache.is_new and mount.content is not None and mount.format is not None:
            try:
                with _fetched(home) as content:
                    await self._contents.fetch(mount.content, content)
                    await helper.unpack(content, mount.format, mount.directory)
            except BaseException:
                cache.purge()  # never keep a cache with half of its content
                raise


def _where(mount: FileMount | WritableDirectoryCache | ReadOnlyDirectory) -> str:
    return mount.file if isinstance(mount, FileMount) else mount.directory


def _fetched(home: Path) -> BinaryIO:
    """A file that has no name: other users could guess it."""
    return tempfile.TemporaryFile(dir=home)


@contextmanager
def _failing(mount: FileMount | WritableDirectoryCache | ReadOnlyDirectory) -> Iterator[None]:
    """Raises MountFailed for what is wrong with a mount; what the machine lacks remains an OSError."""
    try:
        yield
    except BadContent as problem:
        what = describe(mount.content) if mount.content is not None else "cache"
        raise MountFailed(f"{_where(mount)} cannot be mounted, {what}: {problem}") from None
    except OSError as problem:
        if is_shortage(problem):
            raise
        reason = _REASONS.get(problem.errno or 0) or problem.strerror
        raise MountFailed(f"{_where(mount)} cannot be mounted: {reason}") from None


_TAKEN = "another mount is in its place"
_REASONS = {
    errno.EEXIST: _TAKEN,
    errno.ENOTDIR: _TAKEN,
    errno.EISDIR: _TAKEN,
    errno.ENOTEMPTY: _TAKEN,
    errno.ELOOP: "a link leads elsewhere",  # for example in a cache, by an earlier task
}
