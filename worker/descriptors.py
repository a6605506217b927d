"""Works on paths that a task can change: by descriptors of directories, so that no link on the way is followed.

The worker may be root, and a task may put a link in the place of a directory at any moment. What is done by a
descriptor is done to the directory that was opened, even if it has been moved since.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


@contextmanager
def opened(path: str | os.PathLike[str], within: int | None = None) -> Iterator[int]:
    """The descriptor of a directory; of a link to one, it raises OSError."""
    descriptor = os.open(path, DIRECTORY, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def walked(base: int, path: PurePosixPath, *, make: bool = False) -> Iterator[int]:
    """The descriptor of a directory below another one; `make` makes what is missing on the way.

    Raises OSError, with ELOOP where a part of the path is a link.
    """
    descriptor = os.dup(base)
    try:
        for part in path.parts:
            following = _entered(descriptor, part, make)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    finally:
        os.close(descriptor)


def _entered(folder: int, name: str, make: bool) -> int:
    if name == "..":
        raise OSError(errno.ELOOP, "it leads upwards", name)
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, DIRECTORY, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a link is in the way", name) from None
        raise


def is_there(folder: int, name: str) -> bool:
    """Whether a directory has something of this name, be it a link that leads nowhere."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove(folder: int, name: str) -> None:
    """Removes what has this name in a directory, with all that is in it, however deep; a link, not its target.

    Raises OSError.
    """
    if _unlinked(folder, name):
        return
    top = _own(folder, name)
    try:
        _empty(top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=folder)


def _empty(top: int) -> None:
    """Removes all that is in a directory. Directories inside are first moved to the top, so that depth costs neither
    descriptors nor recursion."""
    numbers = itertools.count()
    waiting = [name for name in os.listdir(top) if not _unlinked(top, name)]
    while waiting:
        name = waiting.pop()
        inner = _own(top, name)
        try:
            for each in os.listdir(inner):  # noqa: PTH208 - a descriptor is no path
                if not _unlinked(inner, each):
                    os.close(_own(inner, each))  # moving a directory writes into it
                    waiting.append(_lifted(inner, each, top, numbers))
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)


def _lifted(folder: int, name: str, top: int, numbers: Iterator[int]) -> str:
    """The name that a directory has after it was moved to the top."""
    while True:
        fresh = f".removed-{next(numbers)}"
        if is_there(top, fresh):
            continue
        try:
            os.rename(name, fresh, src_dir_fd=folder, dst_dir_fd=top)
        except OSError as problem:
            if problem.errno not in _TAKEN:
                raise
        else:
            return fresh


def _unlinked(folder: int, name: str) -> bool:
    """Removes a name unless it is a directory; returns whether the name is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        raise
    return True


def _own(folder: int, name: str) -> int:
    """The descriptor of a directory, which its owner may change from now on: tasks make some of theirs read-only."""
    try:
        descriptor = os.open(name, DIRECTORY, dir_fd=folder)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        os.chmod(name, stat.S_IRWXU, dir_fd=folder)  # a link would only lead to what the task may change itself
        descriptor = os.open(name, DIRECTORY, dir_fd=folder)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, stat.S_IRWXU)
    return descriptor
