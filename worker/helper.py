"""Has work on the files of a task's folder done with the rights of the task's user: the worker's end of filework.py."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from worker.archives import BadContent
from worker.files import Unusable
from worker.messages import Message, receive, send
from worker.patience import to_the_end
from worker.users import User

_CODE = "import sys; sys.path.append(sys.argv[1]); from worker.filework import main; main()"
COMMAND = (sys.executable, "-I", "-c", _CODE, str(Path(__file__).parents[1]))


@asynccontextmanager
async def helping(folder: Path, user: User | None, locks: Sequence[int] = ()) -> AsyncIterator[Helper]:
    """A helper for a task's folder, with the rights of the user; None: with the worker's own. Raises OSError.

    `locks`: descriptors that it holds as well, should the worker die.
    """
    mine, its = socket.socketpair()
    with mine:
        with its:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=its.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=locks,
                env={},
                cwd="/",
                start_new_session=True,
            )
        try:
            send(mine, {"folder": str(folder), "user": None if user is None else user.of_process()})
            yield Helper(mine, process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await to_the_end(process.wait())


class Helper:
    """Works on one thing at a time. Paths are those in the folder."""

    def __init__(self, over: socket.socket, process: asyncio.subprocess.Process) -> None:
        self._over = over
        self._process = process
        self._turn = asyncio.Lock()

    async def make_way(self, path: str) -> None:
        """Makes the directories above a path. Raises OSError; FileExistsError where there is something already."""
        await self._ask({"do": "way", "path": path})

    async def write(self, content: BinaryIO, compression: str | None, path: str) -> None:
        """Writes the content of a file to a new one. Raises BadContent, OSError."""
        await self._ask({"do": "write", "path": path, "compression": compression}, content)

    async def unpack(self, content: BinaryIO, archive: str, path: str) -> None:
        """Unpacks an archive into a directory, which is made. Raises BadContent, OSError."""
        await self._ask({"do": "unpack", "path": path, "archive": archive}, content)

    async def files_below(self, path: str) -> list[str]:
        """All files below a directory, by their paths in the folder, sorted. Raises Unusable."""
        try:
            names: list[str] = (await self._ask({"do": "list", "path": path}))[0]
        except BadContent as problem:
            raise Unusable("invalid-resource-on-worker", f"{path} has too many files: {problem}") from None
        return names

    async def open(self, path: str) -> BinaryIO:
        """A file, for reading. Raises Unusable."""
        _, file = await self._ask({"do": "open", "path": path})
        assert file is not None, "it was asked for"
        return os.fdopen(file, "rb")

    async def _ask(self, request: Message, content: BinaryIO | None = None) -> tuple[Any, int | None]:
        async with self._turn:
            try:
                send(self._over, request, None if content is None else content.fileno())
                await _readable(self._over)
                received = await asyncio.to_thread(receive, self._over)
            except ConnectionError:
                received = None
        if received is None:
            raise await self._end()
        answer, file = received
        if "bad" in answer:
            raise BadContent(answer["bad"])
        if "unusable" in answer:
            raise Unusable(*answer["unusable"])
        if "errno" in answer:
            raise OSError(answer["errno"], answer["problem"])
        return answer["done"], file

    async def _end(self) -> Exception:
        """The error that explains why there is no answer."""
        if await self._process.wait() == -signal.SIGKILL:  # killed by the system: memory has run out
            return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return RuntimeError(f"working on files has failed: exit code {self._process.returncode}")


async def _readable(what: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(what, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(what)
