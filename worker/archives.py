"""Unpacks archives and compressed files, and writes nothing outside of the directory that is asked for.

Nothing here trusts the checks of `tarfile` and `zipfile`, which differ between patch releases of Python. No part of a
member's path may be a link, nor lead upwards; a file never is written through a name that exists; no link leads out. No
command of the task runs meanwhile.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

import zstandard

from worker.users import is_shortage

CHUNK = 1 << 20


class BadContent(Exception):
    """Content that is not what the payload says, or that would be written elsewhere."""


def unpack(source: BinaryIO, kind: str | None, target: Path) -> None:
    """Unpacks an archive into a directory, or what else it is, compressed or not, to a new file. Raises BadContent for
    what is wrong with it, in the words of whichever library found it; OSError for a shortage."""
    try:
        if kind == "zip":
            _unzip(source, target)
        elif kind is not None and kind.startswith("tar"):
            _untar(_decompressing(source, kind.removeprefix("tar").removeprefix(".")), target)
        else:
            with target.open("xb") as into:
                shutil.copyfileobj(_decompressing(source, kind), into, CHUNK)
    except Exception as problem:
        if isinstance(problem, BadContent) or is_shortage(problem):
            raise
        words = getattr(problem, "strerror", None) or problem or type(problem).__name__
        raise BadContent(f"it cannot be unpacked as {kind or 'a file'}: {words}") from None


def _decompressing(file: BinaryIO, compression: str | None) -> IO[bytes]:
    if compression == "zst":
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    read: dict[str | None, Any] = {"bz2": bz2.open, "gz": gzip.open, "xz": lzma.open}
    return cast(IO[bytes], read[compression](file)) if compression in read else file


def _untar(content: IO[bytes], top: Path) -> None:
    """Unpacks like Python's `data` filter: without owners, devices, and write permission for others."""
    with tarfile.open(fileobj=content, mode="r|") as tar:
        while (member := tar.next()) is not None:
            vars(tar)["members"] = []  # or else they all stay in memory
            name = member.name.lstrip("/")
            if member.isdir():
                made(top, f"{name}/.")
            elif member.isreg():
                mode = member.mode & (0o755 if member.mode & stat.S_IXUSR else 0o644)
                _file(top, name, cast(IO[bytes], tar.extractfile(member)), mode, member.mtime)
            elif member.issym():
                _link(top, name, member.linkname)
            elif member.islnk():
                source = _inside(member.linkname)
                if not stat.S_ISREG((made(top, str(source)) / source.name).lstat().st_mode):
                    raise BadContent(f"the link {name!r} leads to no file")
                os.link(top / source, _place(top, name), follow_symlinks=False)
            else:
                raise BadContent(f"{name!r} is a device or a pipe")


def _unzip(file: BinaryIO, top: Path) -> None:
    """Unpacks like unzip: with permissions, and links that stay inside."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                _link(top, member.filename, os.fsdecode(archive.read(member)))
            elif member.is_dir():
                made(top, f"{member.filename}/.")
            else:
                with archive.open(member) as content:
                    _file(top, member.filename, content, mode & 0o755 if mode else 0o644)


def _file(top: Path, name: str, content: IO[bytes], mode: int, changed: float | None = None) -> None:
    """Makes a file. `changed`: when it was changed last, in seconds since 1970."""
    place = _place(top, name)
    with place.open("xb") as into:
        shutil.copyfileobj(content, into, CHUNK)
    place.chmod(mode | stat.S_IRUSR | stat.S_IWUSR)
    if changed is not None:
        os.utime(place, (changed, changed))


def _link(top: Path, name: str, to: str) -> None:
    """Makes a link that never leads out, whatever links are on its way: only at first it goes up, from its place."""
    steps = PurePosixPath(to).parts
    up = steps.count("..")
    if PurePosixPath(to).is_absolute() or up >= len(_inside(name).parts) or set(steps[:up]) - {".."}:
        raise BadContent(f"the link {name!r} leads out of the directory")
    _place(top, name).symlink_to(to)


def _place(top: Path, name: str) -> Path:
    """Returns where a member is to be made, in place of an earlier one of its name."""
    place = made(top, name) / _inside(name).name
    place.unlink(missing_ok=True)
    return place


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise BadContent(f"{name!r} leads out of the directory")
    return path


def made(top: Path, name: str) -> Path:
    """Makes and returns the directory of a path below another. Raises BadContent if it would be elsewhere; OSError."""
    path = _inside(name)
    folder = top / (path if name.endswith("/.") else path.parent)
    if os.path.realpath(folder) != str(folder):
        raise BadContent(f"{name!r}: a link is in the way")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
