"""Archives of mounts: every format, and none that writes outside of its directory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from worker.archives import BadContent, decompress, unpack

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.compress,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def tarred(*members: tarfile.TarInfo, content: bytes = b"text") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, target, mode
    return found


def zipped(*members: tuple[str, int, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return packed.getvalue()


def unpacked(content: bytes, archive: str, folder: Path) -> Path:
    (folder / "packed").write_bytes(content)
    unpack(folder / "packed", archive, folder / "target" / "inner")
    return folder / "target" / "inner"


@pytest.mark.parametrize("archive", ["tar", *(f"tar.{name}" for name in COMPRESS)])
def test_tar(tmp_path: Path, archive: str) -> None:
    content = tarred(member("bin", tarfile.DIRTYPE, mode=0o755), member("bin/tool", mode=0o755), member("a"))
    compressed = COMPRESS.get(archive.partition(".")[2], bytes)(content)
    target = unpacked(compressed, archive, tmp_path)
    assert (target / "a").read_text() == "text"
    assert os.access(target / "bin" / "tool", os.X_OK)


def test_zip_with_permissions_and_links(tmp_path: Path) -> None:
    content = zipped(
        ("bin/tool", stat.S_IFREG | 0o755, b"text"), ("link", stat.S_IFLNK | 0o777, b"bin/tool"), ("plain", 0, b"x")
    )
    target = unpacked(content, "zip", tmp_path)
    assert os.access(target / "bin" / "tool", os.X_OK)
    assert (target / "link").read_text() == "text"
    assert (target / "link").is_symlink()
    assert not os.access(target / "plain", os.X_OK)


LINK = stat.S_IFLNK | 0o777
EVIL = {
    "tar: path": ("tar", tarred(member("../evil"))),
    "tar: absolute link": ("tar", tarred(member("link", tarfile.SYMTYPE, "/tmp"))),
    "tar: link": ("tar", tarred(member("link", tarfile.SYMTYPE, "../.."))),
    "tar: through a link": ("tar", tarred(member("link", tarfile.SYMTYPE, ".."), member("link/evil"))),
    "tar: hard link": ("tar", tarred(member("link", tarfile.LNKTYPE, "../../packed"))),
    "tar: device": ("tar", tarred(member("null", tarfile.CHRTYPE))),
    "zip: path": ("zip", zipped(("../evil", 0, b"text"))),
    "zip: absolute path": ("zip", zipped(("/evil", 0, b"text"))),
    "zip: link": ("zip", zipped(("link", LINK, b"../.."))),
    "zip: absolute link": ("zip", zipped(("link", LINK, b"/etc"))),
    "zip: through a link": ("zip", zipped(("a/link", LINK, b".."), ("a/link/../../evil", 0, b"text"))),
}


@pytest.mark.parametrize("name", EVIL)
def test_what_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    archive, content = EVIL[name]
    with pytest.raises(BadContent):
        unpacked(content, archive, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "target"]
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["inner"]


@pytest.mark.parametrize("archive", ["zip", "tar", *(f"tar.{name}" for name in COMPRESS)])
@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\x1f\x8b\x08\0\0\0"])
def test_what_is_no_archive_is_refused(tmp_path: Path, archive: str, content: bytes) -> None:
    if archive == "tar" and not content:
        pytest.skip("an empty file is an empty archive")
    with pytest.raises(BadContent, match=f"unpacked as {archive}"):
        unpacked(content, archive, tmp_path)


@pytest.mark.parametrize("compression", [None, *COMPRESS])
def test_files(tmp_path: Path, compression: str | None) -> None:
    (tmp_path / "packed").write_bytes(COMPRESS[compression](b"text") if compression else b"text")
    decompress(tmp_path / "packed", compression, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"text"


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_file_that_is_not_compressed_as_stated(tmp_path: Path, compression: str) -> None:
    (tmp_path / "packed").write_bytes(b"text")
    with pytest.raises(BadContent, match=compression):
        decompress(tmp_path / "packed", compression, tmp_path / "file")
