"""Calls the functions of the checkout in which it runs, in process: the other half of `tools.bench.calls_cpu`.

    python tools/bench/calls_inside.py < commands

The app of the working directory, which is also first on PYTHONPATH, may be an older one: only names that have not
changed for long are used of it. A command is `NAME COUNT`; its answer one line of JSON: milliseconds of CPU a call.
"""

from __future__ import annotations

import asyncio
import base64
import cProfile
import gc
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from azure.functions.meta import Datum
from azure.storage.queue import QueueServiceClient

from tools.bench.load.client import JSON, Client, Kind, Target
from tools.local.host.context import TraceContext
from tools.local.host.functions import index
from tools.local.host.invocation import Invoker
from tools.local.host.loading import load_app
from tools.local.host.queues import message_metadata, message_payload

AT_A_TIME = 4
ROOT_CLIENT_ID = "static/taskcluster/root"

RESOLVED_QUEUE = "resolved"
"""Name of the queue. It is not imported: in another checkout the module may have another name."""

_Result = TypeVar("_Result")


def _slugid() -> str:
    raw = bytearray(uuid.uuid4().bytes)
    raw[0] &= 0x7F
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Inside:
    """The app of the working directory, and the tasks that were created in it."""

    def __init__(self) -> None:
        self._functions = {function.name: function for function in index(load_app(Path.cwd()))}
        environment = os.environ
        self._target = Target(environment["TASKCLUSTER_ROOT_URL"], ROOT_CLIENT_ID, environment["ROOT_ACCESS_TOKEN"])
        self._client = Client(self._target)
        self._invoker = Invoker()
        letters = "".join(filter(str.isalpha, _slugid().lower()))
        self._kind = Kind(task_queue_id=f"bench/{letters}a", task_group_id=_slugid())
        queues = QueueServiceClient.from_connection_string(environment["STORAGE_CONNECTION_STRING"])
        self._queue = queues.get_queue_client(RESOLVED_QUEUE)
        self._spent_aside = 0.0
        self._task_ids: list[str] = []

    async def create(self, count: int) -> float:
        """Measures createTask."""
        ids = [_slugid() for _ in range(count)]
        self._task_ids += ids
        _, spent = await self._calls([self._request("PUT", f"/task/{id_}", self._kind.definition()) for id_ in ids])
        return spent

    async def status(self, count: int) -> float:
        """Measures status, of the tasks that were created last."""
        ids = self._task_ids[-200:]
        _, spent = await self._calls(
            [self._request("GET", f"/task/{ids[number % len(ids)]}/status") for number in range(count)]
        )
        return spent

    async def dependent(self, count: int) -> float:
        """Measures createTask with four open dependencies."""
        definition = self._kind.definition() | {"dependencies": self._task_ids[-4:]}
        _, spent = await self._calls([self._request("PUT", f"/task/{_slugid()}", definition) for _ in range(count)])
        return spent

    async def cycle(self, count: int) -> float:
        """Measures claimWork and reportCompleted of a task, with all that follows the resolution."""
        path = "/claim-work/" + quote(self._kind.task_queue_id, safe="")
        polls = [{"workerGroup": "bench", "workerId": _slugid(), "tasks": 1} for _ in range(count)]
        claims, claiming = await self._calls([self._request("POST", path, body) for body in polls])
        claimed = [task for answer in claims for task in answer["tasks"]]
        reports = [
            self._request("POST", f"/task/{task['status']['taskId']}/runs/0/completed", None, task["credentials"])
            for task in claimed
        ]
        _, reporting = await self._calls(reports)
        return claiming + reporting + await self._follow(len(claimed))

    async def layers(self, count: int) -> dict[str, dict[str, tuple[float, float]]]:
        """Returns for each call what it takes of each layer: calls of functions, and microseconds under a profiler."""
        path, ids = "/claim-work/" + quote(self._kind.task_queue_id, safe=""), [_slugid() for _ in range(count)]
        polls = [{"workerGroup": "bench", "workerId": _slugid(), "tasks": 1} for _ in range(count)]
        found: dict[str, dict[str, tuple[float, float]]] = {}

        async def profiled(name: str, requests: Sequence[Datum]) -> list[Any]:
            profile = cProfile.Profile()
            profile.enable()
            answers, _ = await self._calls(requests)
            profile.disable()
            found[name] = by_layer(profile, len(requests))
            return answers

        def of_runs(end: str, claimed: Sequence[Any]) -> list[Datum]:
            return [
                self._request("POST", f"/task/{each['status']['taskId']}/runs/0/{end}", None, each["credentials"])
                for each in claimed
            ]

        await profiled("createTask", [self._request("PUT", f"/task/{id_}", self._kind.definition()) for id_ in ids])
        claims = await profiled("claimWork", [self._request("POST", path, body) for body in polls])
        claimed = [task for answer in claims for task in answer["tasks"]]
        await profiled("reclaimTask", of_runs("reclaim", claimed))
        await profiled("reportCompleted", of_runs("completed", claimed))
        await self._follow(len(claimed))
        return found

    async def _follow(self, count: int) -> float:
        """Waits until no resolved message is left: the process follows resolutions up itself, or handles messages.
        Messages are received in threads whose CPU does not count: a host's listener would cost as much as what handles
        them."""
        function = self._functions["task-resolved"]

        def look() -> tuple[list[Any], bool]:
            visible = list(self._queue.receive_messages(max_messages=32))
            return visible, bool(self._queue.get_queue_properties().approximate_message_count)

        async def handle(message: Any) -> None:
            payload = message_payload(message.content, "base64", binary=False)
            await self._invoker.invoke(function, payload, message_metadata(message))
            await self._aside(lambda: self._queue.delete_message(message))

        self._spent_aside = 0.0
        begun = time.process_time()
        left = True
        while left:
            messages, left = await self._aside(look)
            await self._in_turns(handle, messages)
            await asyncio.sleep(0.1)
        return (time.process_time() - begun - self._spent_aside) * 1000 / count

    async def _aside(self, work: Callable[[], _Result]) -> _Result:
        def measured() -> tuple[_Result, float]:
            begun = time.thread_time()
            return work(), time.thread_time() - begun

        result, spent = await asyncio.to_thread(measured)
        self._spent_aside += spent
        return result

    async def _calls(self, requests: Sequence[Datum]) -> tuple[list[Any], float]:
        function = self._functions["http"]

        async def call(request: Datum) -> Any:
            answer: Any = await self._invoker.invoke(function, request, trace=TraceContext.following("", ""))
            status, content = int(answer.value["status_code"].value), answer.value["body"].value
            assert status < 300, content
            return json.loads(content)

        return await self._in_turns(call, requests)

    async def _in_turns(self, work: Callable[[Any], Any], items: Sequence[Any]) -> tuple[list[Any], float]:
        """Does the work on each item, some at a time. Returns the results, and the CPU of each in milliseconds."""
        waiting, results = iter(items), []

        async def go() -> None:
            for item in waiting:
                results.append(await work(item))

        gc.collect()
        begun = time.process_time()
        await asyncio.gather(*(go() for _ in range(AT_A_TIME)))
        return results, (time.process_time() - begun) * 1000 / max(len(items), 1)

    def _request(self, method: str, path: str, body: Any = None, credentials: Any = None) -> Datum:
        resource = f"/api/queue/v1{path}"
        content = b"" if body is None else json.dumps(body).encode()
        signed = self._client._authorization(method, resource, content, credentials)
        headers = {"host": self._target.root_url.partition("://")[2], "authorization": signed}
        headers |= {"x-waws-unencoded-url": resource, "x-original-url": resource}
        if content:
            headers |= {"content-type": JSON, "content-length": str(len(content))}
        plain = unquote(resource)
        return Datum(
            {
                "method": Datum(method, "string"),
                "url": Datum(self._target.root_url + plain, "string"),
                "headers": {name: Datum(value, "string") for name, value in headers.items()},
                "params": {"path": Datum(plain[1:], "string")},
                "query": {},
                "body": Datum(content, "bytes"),
            },
            "http",
        )


_PACKAGES = ("azure", "aiohttp", "httpx", "httpcore", "h11", "pydantic", "opentelemetry")


def _layer(file: str) -> str:
    """Returns the layer of a file: ours by folder, others by package; the rest of Python's own library is `library`."""
    where = file.replace(os.sep, "/").removeprefix(str(Path.cwd()) + "/")
    if "site-packages/" in where:
        package = where.rpartition("site-packages/")[2].partition("/")[0].removesuffix(".py")
        return package if package in _PACKAGES else "other packages"
    parts = where.split("/")
    if parts[0] in ("shared", "functions", "tools"):
        folders = parts[:-1]
        return "/".join(folders[: 3 if folders[1:2] == ["queue"] else 2])
    for name in ("asyncio", "logging", "json"):
        if f"/{name}/" in where:
            return name
    return "made by dataclasses" if where == "<string>" else "library"


def by_layer(profile: cProfile.Profile, calls: int) -> dict[str, tuple[float, float]]:
    """Returns for each layer calls and microseconds of one call. C functions count for their caller."""
    found: dict[str, list[float]] = {}
    for entry in profile.getstats():
        if isinstance(entry.code, str):
            continue
        layer = found.setdefault(_layer(entry.code.co_filename), [0.0, 0.0])
        inner = [each for each in entry.calls or () if isinstance(each.code, str)]
        layer[0] += entry.callcount + sum(each.callcount for each in inner)
        layer[1] += entry.inlinetime + sum(each.inlinetime for each in inner)
    return {name: (count / calls, seconds * 1e6 / calls) for name, (count, seconds) in found.items()}


async def main() -> None:
    """Carries out commands until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the app logs
    inside = Inside()
    answers.write("ready\n")
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, _, count = line.partition(" ")
        answers.write(json.dumps(await getattr(inside, name)(int(count))) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
