"""What was put is what is served: its bytes and its encoding, whatever it is called and made of, however it is sent
(contract 7.2)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable
from random import Random
from typing import get_args

import pytest

from shared.base.types import UploadMode
from shared.queue.tasks.rules import Resolved
from tests.simulator.sending import (
    RELAY_LIMIT,
    SENDERS,
    File,
    Sent,
    cannot_be_told,
    pack,
    served,
)
from tests.simulator.situations import A, running
from tests.simulator.world import World

MODES: tuple[UploadMode, ...] = get_args(UploadMode)
AT_A_TIME = 250
"""Artifacts of one run."""
ENDINGS = (
    *("", ".txt", ".log", ".json", ".tar", ".crate", ".rds", ".rda", ".z", ".Z", ".taz", ".svg", ".svgz", ".gzip"),
    *(".gz", ".tar.gz", ".tgz", ".zip", ".xz", ".zst", ".apk", ".cpgz", ".bz2", ".html", ".bin"),
)
TYPES = (
    *("text/plain", "text/plain; charset=utf-8", "application/json", "application/octet-stream", "application/gzip"),
    *("application/x-gzip", "application/x-tar", "application/x-gtar", "image/svg+xml", "application/x-compressed"),
)


def of_equal_length(random: Random, named: str) -> bytes:
    """A text whose gzip is exactly as long as itself."""
    for _ in range(1000):
        text = bytearray()
        while len(text) < 400:
            text += b"%x" % random.getrandbits(4)
            if len(text) > 30 and len(pack(File(named, "", bytes(text)))) == len(text):
                return bytes(text)
    raise AssertionError("there is no such text")


def text(random: Random, length: int) -> bytes:
    return b"".join(b"%d lines are written\n" % random.getrandbits(30) for _ in range(length // 25 + 1))[:length]


MAKERS: tuple[Callable[[Random, str], bytes], ...] = (
    lambda random, name: b"",
    lambda random, name: random.randbytes(1),
    lambda random, name: random.randbytes(random.randrange(2, 2 * RELAY_LIMIT)),
    lambda random, name: text(random, random.randrange(1, 300)),
    lambda random, name: text(random, random.randrange(1, 4 * RELAY_LIMIT)),
    lambda random, name: gzip.compress(text(random, random.randrange(3 * RELAY_LIMIT)), mtime=0),
    lambda random, name: gzip.compress(random.randbytes(random.randrange(2 * RELAY_LIMIT)), mtime=0),
    lambda random, name: gzip.compress(gzip.compress(text(random, 9000))),
    lambda random, name: gzip.compress(text(random, 500)) + gzip.compress(text(random, 700)),
    lambda random, name: zlib.compress(text(random, 900)),
    of_equal_length,
    lambda random, name: pack(File(name, "", of_equal_length(random, name))),
    lambda random, name: b"\x1f\x8b\x08"[: random.randrange(1, 4)],
    lambda random, name: gzip.compress(text(random, 5000))[: random.randrange(3, 200)],
    lambda random, name: b"\x1f\x8b\x08" + random.randbytes(93) + (100).to_bytes(4, "little"),
)


def a_file(random: Random, number: int) -> File:
    folder = random.choice(("public", "public/build", "private"))
    name = f"{folder}/{number}{random.choice(ENDINGS)}"
    return File(name, random.choice(TYPES), random.choice(MAKERS)(random, name))


def as_served(sent: Sent) -> tuple[bytes, str]:
    """Bytes, and the encoding that a reader is to undo."""
    encoding = "gzip" if cannot_be_told(sent) else sent.encoding
    return sent.body, "" if encoding == "identity" else encoding


@pytest.mark.parametrize("count", [250, pytest.param(10_000, marks=[pytest.mark.large, pytest.mark.timeout(1800)])])
def test_what_was_put_is_what_is_served(count: int) -> None:
    """At once, and after the run is over. What cannot be told is counted, so that it stays the exception."""
    random, sent = Random(count + 1), list[Sent]()
    for first in range(0, count, AT_A_TIME):
        world = World()
        world.run(one_run(world, random, range(first, min(first + AT_A_TIME, count)), sent))
    assert len(sent) == count
    assert sum(each.is_direct for each in sent) > count / 10
    assert sum(not each.is_direct for each in sent) > count / 2
    assert 0 < sum(map(cannot_be_told, sent)) < count / 25


async def one_run(world: World, random: Random, numbers: Iterable[int], all_sent: list[Sent]) -> None:
    """A run with an artifact for each number, some of which are read while it is running."""
    await running(world)
    wanted: dict[str, tuple[Sent, str]] = {}
    for number in numbers:
        file, how, mode = a_file(random, number), random.choice(list(SENDERS)), random.choice(MODES)
        sent = await SENDERS[how](world, file, mode)
        all_sent.append(sent)
        wanted[file.name] = sent, f"{how}, {mode}, {file.content_type}"
        if random.random() < 0.5:
            await check(world, file.name, *wanted[file.name])
    await world.services.lifecycle.report(A, 0, Resolved.COMPLETED)
    await world.drain(60)
    for name, (sent, about) in wanted.items():
        await check(world, name, sent, about)


async def check(world: World, name: str, sent: Sent, about: str) -> None:
    content, encoding = await served(world, name)
    shown = "" if encoding == "identity" else encoding
    assert (content, shown) == as_served(sent), (name, about, sent.encoding, sent.stated)
