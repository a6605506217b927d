"""Unpacks archives and compressed files, and writes nothing outside of the directory that is asked for."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

CHUNK = 1 << 20


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


_BROKEN = (EOFError, OSError, ValueError, lzma.LZMAError, zstandard.ZstdError, tarfile.TarError, zipfile.BadZipFile)


def decompress(source: Path, compression: str | None, target: Path) -> None:
    """Writes the content of a file that may be compressed. Raises BadContent."""
    if compression is None:
        shutil.copyfile(source, target)
        return
    try:
        with source.open("rb") as file, _decompressing(file, compression) as content, target.open("wb") as into:
            shutil.copyfileobj(content, into, CHUNK)
    except _BROKEN as problem:
        raise BadContent(f"it cannot be decompressed as {compression}: {problem}") from None


def unpack(source: Path, archive: str, target: Path) -> None:
    """Unpacks an archive into a directory, which is made. Raises BadContent."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        if archive == "zip":
            _unzip(source, target)
        else:
            _untar(source, archive.removeprefix("tar").removeprefix("."), target)
    except _BROKEN as problem:
        raise BadContent(f"it cannot be unpacked as {archive}: {problem}") from None


def _untar(source: Path, compression: str, target: Path) -> None:
    """The `data` filter of Python refuses paths and links that lead out, devices, and foreign owners."""
    with source.open("rb") as file:
        if compression:
            with _decompressing(file, compression) as content, tarfile.open(fileobj=content, mode="r|") as tar:
                tar.extractall(target, filter="data")
        else:
            with tarfile.open(fileobj=file, mode="r|") as tar:
                tar.extractall(target, filter="data")


def _unzip(source: Path, target: Path) -> None:
    """As unzip does: with permissions, and links that stay inside."""
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            place = target / member.filename
            if not _is_inside(place, target) or member.filename.startswith("/"):
                raise BadContent(f"{member.filename!r} leads out of the directory")
            if stat.S_ISLNK(mode):
                link = os.fsdecode(archive.read(member))
                if Path(link).is_absolute() or not _is_inside(place.parent / link, target):
                    raise BadContent(f"the link {member.filename!r} leads out of the directory")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(link)
                continue
            archive.extract(member, target)
            if mode and not member.is_dir():
                place.chmod(stat.S_IMODE(mode) & 0o755 | stat.S_IRUSR | stat.S_IWUSR)


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path, all links on the way followed, is in the folder."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
