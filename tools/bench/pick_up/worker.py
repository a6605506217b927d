"""Workers that wait with the public Python clients, and pause as scriptworker does: reads options from stdin."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from typing import Any

import aiohttp
import taskcluster
import taskcluster.aio

PAUSE = 10.0
"""Seconds that a worker pauses after an empty answer: scriptworker's `poll_interval` by default."""


def _took(worker_id: str, claim: Any) -> None:
    print(worker_id, claim["status"]["taskId"], time.time(), flush=True)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    credentials = {"clientId": given["clientId"], "accessToken": given["accessToken"]}
    return {"rootUrl": given["rootUrl"], "credentials": credentials}


def _work(given: dict[str, Any], worker_id: str) -> None:
    queue, request = taskcluster.Queue(_options(given)), {"workerGroup": "bench", "workerId": worker_id, "tasks": 1}
    while True:
        try:
            claims = queue.claimWork(given["taskQueueId"], request)["tasks"]
            for claim in claims:
                _took(worker_id, claim)
                mine = taskcluster.Queue({**_options(given), "credentials": claim["credentials"]})
                mine.reportCompleted(claim["status"]["taskId"], claim["runId"])
        except Exception:
            logging.exception("%s", worker_id)
            claims = []
        if not claims:
            time.sleep(PAUSE)


async def _work_async(given: dict[str, Any], worker_id: str, session: aiohttp.ClientSession) -> None:
    queue = taskcluster.aio.Queue(_options(given), session=session)
    request = {"workerGroup": "bench", "workerId": worker_id, "tasks": 1}
    while True:
        try:
            claims = (await queue.claimWork(given["taskQueueId"], request))["tasks"]
            for claim in claims:
                _took(worker_id, claim)
                options = {**_options(given), "credentials": claim["credentials"]}
                mine = taskcluster.aio.Queue(options, session=session)
                await mine.reportCompleted(claim["status"]["taskId"], claim["runId"])
        except Exception:
            logging.exception("%s", worker_id)
            claims = []
        if not claims:
            await asyncio.sleep(PAUSE)


async def _all_async(given: dict[str, Any]) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(_work_async(given, f"async-{each}", session) for each in range(given["workers"])))


def main() -> None:
    """Works until the process is ended."""
    logging.basicConfig(level=logging.ERROR)
    given = json.load(sys.stdin)
    if sys.argv[1] == "async":
        asyncio.run(_all_async(given))
    threads = [threading.Thread(target=_work, args=(given, f"sync-{each}")) for each in range(given["workers"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
