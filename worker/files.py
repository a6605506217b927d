"""Opens files of a task's folder, and none outside of it, whatever links the task has made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO


class Unusable(Exception):
    """A path that leads to no file that may be uploaded. `reason` is one of an `error` artifact (contract 7.2)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@contextmanager
def opened(folder: Path, path: str) -> Iterator[BinaryIO]:
    """The file at a path in the folder, for reading. Links are followed as long as they stay inside.

    Raises Unusable.
    """
    with resolved(folder, path) as found:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise Unusable("invalid-resource-on-worker", f"{path} is no file")
        with open(found, "rb", closefd=False) as file:
            yield file


def files_below(folder: Path, path: str) -> list[str]:
    """All files below a directory of the folder, by their paths in the folder, sorted; links to directories are not
    followed. Raises Unusable."""
    with resolved(folder, path) as found:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            raise Unusable("invalid-resource-on-worker", f"{path} is no directory")
        try:
            names = [
                str(PurePosixPath(path, parent, name))
                for parent, _, files, _ in os.fwalk(".", dir_fd=found, follow_symlinks=False)
                for name in files
            ]
        except (OSError, RecursionError):
            raise Unusable("invalid-resource-on-worker", f"{path} is too deep") from None
    return sorted(names)


@contextmanager
def resolved(folder: Path, path: str) -> Iterator[int]:
    """The descriptor of what a path in the folder leads to. Raises Unusable.

    The path is resolved first, and then opened without following any link: one that changes in between is refused.
    """
    root = Path(os.path.realpath(folder))
    try:
        inside = Path(os.path.realpath(root / path)).relative_to(root)
    except ValueError:
        raise Unusable("invalid-resource-on-worker", f"{path} leads out of the task's folder") from None
    descriptor = -1
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        for part in inside.parts:
            # Without waiting for the other end of a named pipe.
            following = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    except (FileNotFoundError, NotADirectoryError):
        raise Unusable("file-missing-on-worker", f"{path} does not exist") from None
    except PermissionError:
        raise Unusable("file-not-readable-on-worker", f"{path} cannot be read") from None
    except OSError as error:
        raise Unusable("invalid-resource-on-worker", f"{path} cannot be opened: {error.strerror}") from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
