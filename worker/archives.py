"""Unpacks archives and compressed files, and writes nothing outside of the directory that is asked for.

Nothing here trusts the checks of `tarfile` and `zipfile`, which differ between patch releases of Python. No part of a
member's path may be a link, nor lead upwards, and a file never is written through a name that exists.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import lzma
import os
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

import zstandard

from worker.descriptors import opened, walked
from worker.shortage import is_shortage

CHUNK = 1 << 20
KEPT_FREE = 64 << 20
KEPT_NAMES = 1000
"""Bytes and files that unpacking leaves free on the disk for others: a small archive may hold more than any disk."""


class BadContent(Exception):
    """Content that is not what the payload says, or that would be written elsewhere."""


def _decompressing(file: BinaryIO, compression: str) -> IO[bytes]:
    match compression:
        case "bz2":
            return bz2.open(file)
        case "gz":
            return cast(IO[bytes], gzip.open(file))
        case "xz":
            return lzma.open(file)
        case _:
            return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)


_BROKEN = (
    EOFError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,  # zipfile's, for passwords and kinds of compression
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
)


@contextmanager
def _understood(what: str) -> Iterator[None]:
    """Raises BadContent for what is wrong with the content; what the machine lacks remains an OSError."""
    try:
        yield
    except _BROKEN as problem:
        if is_shortage(problem):
            raise
        raise BadContent(f"it cannot be {what}: {problem or type(problem).__name__}") from None


def decompress(source: Path | int, compression: str | None, target: Path) -> None:
    """Writes the content of a file, a path or a descriptor, that may be compressed, to a new one.

    Raises BadContent; FileExistsError; OSError for a shortage.
    """
    with _source(source) as file, target.open("xb") as into:
        if compression is None:
            _copy(file, into)
            return
        with _understood(f"decompressed as {compression}"), _decompressing(file, compression) as content:
            _copy(content, into)


def unpack(source: Path | int, archive: str, target: Path) -> None:
    """Unpacks an archive, a path or a descriptor, into a directory, which is made.

    Raises BadContent; OSError for a shortage.
    """
    target.mkdir(parents=True, exist_ok=True)
    with _source(source) as file, opened(target) as top, _understood(f"unpacked as {archive}"):
        if archive == "zip":
            _unzip(file, _Target(top))
        elif compression := archive.removeprefix("tar").removeprefix("."):
            with _decompressing(file, compression) as content:
                _untar(content, _Target(top))
        else:
            _untar(file, _Target(top))


def _source(source: Path | int) -> BinaryIO:
    return os.fdopen(source, "rb", closefd=False) if isinstance(source, int) else source.open("rb")


def _untar(content: IO[bytes], target: _Target) -> None:
    """Unpacks like Python's `data` filter: without owners, devices, and write permission for others."""
    with tarfile.open(fileobj=content, mode="r|") as tar:
        while (member := tar.next()) is not None:
            vars(tar)["members"] = []  # or else they all stay in memory
            name = member.name.lstrip("/")
            if member.isdir():
                target.directory(name)
            elif member.isreg():
                mode = member.mode & 0o755
                mode = (mode if mode & stat.S_IXUSR else mode & 0o644) | stat.S_IRUSR | stat.S_IWUSR
                target.file(name, cast(IO[bytes], tar.extractfile(member)), mode, member.mtime)
            elif member.issym():
                target.link(name, member.linkname)
            elif member.islnk():
                target.hard_link(name, member.linkname)
            else:
                raise BadContent(f"{name!r} is a device or a pipe")


def _unzip(file: BinaryIO, target: _Target) -> None:
    """Unpacks like unzip: with permissions, and links that stay inside."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                target.link(member.filename, os.fsdecode(archive.read(member)))
            elif member.is_dir():
                target.directory(member.filename)
            else:
                rights = stat.S_IMODE(mode) & 0o755 | stat.S_IRUSR | stat.S_IWUSR if mode else 0o644
                with archive.open(member) as content:
                    target.file(member.filename, content, rights)


class _Target:
    """The directory that an archive is unpacked into."""

    def __init__(self, top: int) -> None:
        self._top = top

    def directory(self, name: str) -> None:
        _leave_room(self._top)
        with walked(self._top, _inside(name), make=True):
            pass

    def file(self, name: str, content: IO[bytes], mode: int, changed: float | None = None) -> None:
        """`changed`: when it was changed last, in seconds since 1970."""
        with self._place(name) as (folder, own):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(own, flags, 0o600, dir_fd=folder), "wb") as into:
                _copy(content, into)
                into.flush()
                os.fchmod(into.fileno(), mode)
                if changed is not None:
                    os.utime(into.fileno(), (changed, changed))

    def link(self, name: str, to: str) -> None:
        path = _inside(name)
        if posixpath.isabs(to) or posixpath.normpath(posixpath.join(*path.parts[:-1], to)).split("/")[0] == "..":
            raise BadContent(f"the link {name!r} leads out of the directory")
        with self._place(name) as (folder, own):
            os.symlink(to, own, dir_fd=folder)

    def hard_link(self, name: str, to: str) -> None:
        """`to`: a file of the archive, by its name there."""
        source = _inside(to)
        with walked(self._top, source.parent) as there, self._place(name) as (folder, own):
            if not stat.S_ISREG(os.stat(source.name, dir_fd=there, follow_symlinks=False).st_mode):
                raise BadContent(f"the link {name!r} leads to no file")
            os.link(source.name, own, src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False)

    @contextmanager
    def _place(self, name: str) -> Iterator[tuple[int, str]]:
        """Where a member is to be made, in place of an earlier one of its name."""
        path = _inside(name)
        if not path.parts:
            raise BadContent(f"{name!r} is no name")
        _leave_room(self._top)
        with walked(self._top, path.parent, make=True) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=folder)
            yield folder, path.name


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise BadContent(f"{name!r} leads out of the directory")
    return path


def _copy(content: IO[bytes], into: IO[bytes]) -> None:
    while chunk := content.read(CHUNK):
        _leave_room(into.fileno(), len(chunk))
        into.write(chunk)


def _leave_room(descriptor: int, size: int = 0) -> None:
    """Raises OSError, as a full disk does, while the disk still has some room for others."""
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < KEPT_FREE + size or (disk.f_files > 0 and disk.f_favail < KEPT_NAMES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
