"""Archives of mounts: every format, and none that writes outside of its directory."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import posixpath
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from worker.archives import BadContent, unpack

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
    target = folder / "target" / "inner"
    target.mkdir(parents=True, exist_ok=True)
    with (folder / "packed").open("rb") as packed:
        unpack(packed, archive, target)
    return target


@pytest.mark.parametrize("archive", ["tar", *(f"tar.{name}" for name in COMPRESS)])
def test_tar(tmp_path: Path, archive: str) -> None:
    content = tarred(member("bin", tarfile.DIRTYPE, mode=0o755), member("bin/tool", mode=0o755), member("a"))
    compressed = COMPRESS.get(archive.partition(".")[2], bytes)(content)
    target = unpacked(compressed, archive, tmp_path)
    assert (target / "a").read_text(encoding="utf-8") == "text"
    assert os.access(target / "bin" / "tool", os.X_OK)


def test_zip_with_permissions_and_links(tmp_path: Path) -> None:
    content = zipped(
        ("bin/tool", stat.S_IFREG | 0o755, b"text"), ("link", stat.S_IFLNK | 0o777, b"bin/tool"), ("plain", 0, b"x")
    )
    target = unpacked(content, "zip", tmp_path)
    assert os.access(target / "bin" / "tool", os.X_OK)
    assert (target / "link").read_text(encoding="utf-8") == "text"
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


def slipping(name: str, up: int = 3) -> bytes:
    """Returns a link that leads inside when it is made, and outside when others have been made."""
    deep = "/".join(f"n{number}" for number in range(up))
    return zipped(
        ("d/e/c", LINK, f"../../{deep}/{'../' * up}".encode()),
        (deep, LINK, ("../" * (up - 1)).rstrip("/").encode() or b"."),
        ("x", LINK, b"d/e"),
        (name, stat.S_IFREG | 0o644, b"text"),
    )


def long_ways() -> bytes:
    """Returns a link whose target is longer than a path may be once it is resolved (CVE-2025-4517)."""
    packed, path, steps = io.BytesIO(), "", "abcdefghijklmnop"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for step in steps:
            archive.addfile(member(posixpath.join(path, "d" * 247), tarfile.DIRTYPE, mode=0o755))
            archive.addfile(member(posixpath.join(path, step), tarfile.SYMTYPE, "d" * 247))
            path = posixpath.join(path, "d" * 247)
        long = f"{'/'.join(steps)}/{'l' * 254}"
        archive.addfile(member(long, tarfile.SYMTYPE, "../" * len(steps)))
        archive.addfile(member("escape", tarfile.SYMTYPE, f"{long}/../../../../evil"))
        archive.addfile(member("flag", tarfile.LNKTYPE, "escape"))
        flag = member("flag")
        flag.size = 4
        archive.addfile(flag, io.BytesIO(b"text"))
    return packed.getvalue()


EVIL |= {
    "zip: links that lead out together": ("zip", slipping("x/c/evil")),
    "zip: links and steps upwards": ("zip", slipping("x/../c/evil")),
    "tar: a long way": ("tar", long_ways()),
    "tar: a file through a hard link to a link": (
        "tar",
        tarred(member("a", tarfile.SYMTYPE, "b/../../evil"), member("c", tarfile.LNKTYPE, "a"), member("c")),
    ),
    "tar: a pipe": ("tar", tarred(member("pipe", tarfile.FIFOTYPE))),
    "tar: a hard link to a directory": ("tar", tarred(member("d", tarfile.DIRTYPE), member("l", tarfile.LNKTYPE, "d"))),
    "tar: a directory in place of a link": (
        "tar",
        tarred(member("a", tarfile.SYMTYPE, "b"), member("a", tarfile.DIRTYPE), member("a/evil")),
    ),
    "tar: a link through a link": (
        "tar",
        tarred(
            member("a/b/c", tarfile.DIRTYPE, mode=0o755),
            member("a/b/c/top", tarfile.SYMTYPE, "../../.."),
            member("out", tarfile.SYMTYPE, "a/b/c/top/.."),
        ),
    ),
    "zip: a link through a link": (
        "zip",
        zipped(("a/b/c/", stat.S_IFDIR | 0o755, b""), ("a/b/c/top", LINK, b"../../.."), ("out", LINK, b"a/b/c/top/..")),
    ),
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
    content = COMPRESS[compression](b"text") if compression else b"text"
    unpack(io.BytesIO(content), compression, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"text"
    with pytest.raises(BadContent, match="File exists"):
        unpack(io.BytesIO(content), compression, tmp_path / "file")


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_file_that_is_not_compressed_as_stated(tmp_path: Path, compression: str) -> None:
    with pytest.raises(BadContent, match=compression):
        unpack(io.BytesIO(b"text"), compression, tmp_path / "file")


def test_a_later_member_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    """The later member replaces the earlier one, and is not written through it."""
    links = (member("a"), member("b", tarfile.LNKTYPE, "a"), member("c", tarfile.SYMTYPE, "a"))
    target = unpacked(tarred(*links, member("c", mode=0o600)), "tar", tmp_path)
    assert not (target / "c").is_symlink()
    assert (target / "a").stat().st_ino == (target / "b").stat().st_ino != (target / "c").stat().st_ino


def test_what_exists_outside_is_not_changed(tmp_path: Path) -> None:
    """Whoever has made the link: a cache holds what its tasks have left."""
    (tmp_path / "mine").write_text("mine")
    target = tmp_path / "target" / "inner"
    target.mkdir(parents=True)
    (target / "file").symlink_to(tmp_path / "mine")
    (target / "folder").symlink_to(tmp_path)
    unpacked(tarred(member("file")), "tar", tmp_path)
    assert (target / "file").read_text(encoding="utf-8") == "text"
    for archive, content in {"tar": tarred(member("folder/mine")), "zip": zipped(("folder/mine", 0, b"x"))}.items():
        with pytest.raises(BadContent, match="a link is in the way"):
            unpacked(content, archive, tmp_path)
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "mine"


def test_rights_that_an_archive_gives_to_others_are_left_out(tmp_path: Path) -> None:
    target = unpacked(tarred(member("a", mode=0o6777), member("b", mode=0o077)), "tar", tmp_path)
    assert stat.S_IMODE((target / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "b").stat().st_mode) == 0o644
    target = unpacked(zipped(("c", stat.S_IFREG | 0o6777, b"x")), "zip", tmp_path)
    assert stat.S_IMODE((target / "c").stat().st_mode) == 0o755


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="nothing here is as a full disk")
@pytest.mark.parametrize("archive", ["zip", "tar.gz", "gz"])
def test_a_full_disk_is_a_shortage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: str) -> None:
    """A full disk is not the content's fault: a larger machine may have room."""
    content = zipped(("a", 0, b"x")) if archive == "zip" else gzip.compress(tarred(member("a")))
    monkeypatch.setattr(Path, "open", lambda *_: io.FileIO("/dev/full", "w"))
    with pytest.raises(OSError, match="No space"):
        unpack(io.BytesIO(content), archive, tmp_path / "target")


@pytest.mark.parametrize("archive", ["zip", "tar.gz"])
def test_damaged_content_is_refused(tmp_path: Path, archive: str) -> None:
    content = zipped(("a", 0, b"x" * 1000)) if archive == "zip" else gzip.compress(tarred(member("a")) * 20)
    for place in range(10, len(content), 7):
        damaged = content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
        with contextlib.suppress(BadContent):
            unpacked(damaged, archive, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "target"]
