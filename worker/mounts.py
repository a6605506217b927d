"""Puts files, directories and the content of caches into the task's folder before its commands run.

Content is fetched with the rights and scopes of the task. The guard has put caches in place already (folders.py).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import tempfile
from http import HTTPStatus
from typing import BinaryIO

import aiohttp
from taskcluster.aio import Index, Object, Queue
from yarl import URL

from worker.archives import CHUNK, BadContent, made, unpack
from worker.context import REFUSED, TRIES, TROUBLE, Context, Json, TaskException, insist
from worker.text import shown
from worker.users import is_shortage

TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)


async def place(task: Context, mount: Json) -> None:
    """Puts a mount in place. Raises TaskException where it cannot be, or cannot be had now; OSError for a shortage."""
    where, content = mount.get("file") or mount["directory"], mount.get("content", {})
    named = [f"{name} {content[name]}" for name in ("artifact", "taskId", "namespace", "url") if name in content]
    what = ", ".join(named) or "content of the payload"
    if (cache := mount.get("cacheName")) is None:
        task.say(f"Mounting {where}: {what}")
    else:
        is_new = task.caches.get(cache, "the task has too many, or too long a path")
        if isinstance(is_new, str):
            raise TaskException("failed", f"{where} cannot be mounted, cache {cache}: {is_new}")
        task.say(f"Cache {cache} at {where}: {'new' if is_new else 'as it was left'}")
        if not is_new or not content:
            return
    try:
        with tempfile.TemporaryFile(dir=task.folder) as fetched:
            if "raw" in content:
                fetched.write(content["raw"].encode(errors="replace"))
            elif "base64" in content:
                fetched.write(base64.b64decode(content["base64"]))
            else:
                found = await insist(f"fetching {what}", lambda: _download(task, content, fetched), TRIES)
                if found != content.get("sha256", found):
                    raise BadContent(f"its sha256 is {found}, not {content['sha256']}")
            fetched.seek(0)  # and written through
            made(task.folder, where if "file" in mount else f"{where}/.")
            await asyncio.to_thread(unpack, fetched, mount.get("format"), task.folder / where)
    except TROUBLE as trouble:
        raise TaskException("intermittent-task", f"{where} cannot be had now, {what}: {shown(trouble)}") from None
    except (BadContent, OSError, *REFUSED) as wrong:
        if is_shortage(wrong):
            raise
        problem = getattr(wrong, "strerror", None) or wrong
        raise TaskException("failed", f"{where} cannot be mounted, {what}: {problem}") from None


async def _download(task: Context, content: Json, target: BinaryIO) -> str:
    """Writes what the content's URL leads to; its sha256. Raises BadContent, OSError, TROUBLE, REFUSED."""
    digest = hashlib.sha256()
    url = content.get("url") or await _location(task, content)
    try:
        async with task.session.get(URL(url, encoded=True), timeout=TIMEOUT) as answer:
            if HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise BadContent(f"the server answers {answer.status}")
            answer.raise_for_status()
            target.seek(0)
            target.truncate()
            async for chunk in answer.content.iter_chunked(CHUNK):
                digest.update(chunk)
                await asyncio.to_thread(target.write, chunk)
    except (ValueError, aiohttp.NonHttpUrlClientError) as wrong:  # also of the URL that it redirects to
        raise BadContent(f"its URL cannot be used: {shown(wrong)}") from None
    return digest.hexdigest()


async def _location(task: Context, content: Json) -> str:
    """Returns the URL of an artifact of a task, named or in the index. Raises BadContent, TROUBLE, REFUSED."""
    if (task_id := content.get("taskId")) is None:
        task_id = (await task.client(Index).findTask(content["namespace"]))["taskId"]
    found = await task.client(Queue).latestArtifact(task_id, content["artifact"])
    if found["storageType"] == "error":
        raise BadContent(f"it is missing: {found['message']}")
    if found["storageType"] == "object":
        objects = Object({"rootUrl": task.options.root_url, "credentials": found["credentials"]}, session=task.session)
        found = await objects.startDownload(found["name"], {"acceptDownloadMethods": {"getUrl": True}})
    return str(found["url"])
