"""That a task of the worker's own user does not read the worker's environment."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import aiohttp
import pytest
from aiohttp import web

import worker.__main__ as command
from worker.hiding import Formatter, shown, without_secrets
from worker.logstore import said
from worker.options import Options
from worker.queue import Advice, Queue
from worker.signed import SignedUrls
from worker.worker import Worker

NOBODY = 65534
READER = Path("/bin/cat")


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="it starts processes of another user")
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="it needs a Python that every user may run")
def test_another_process_of_the_same_user_does_not_see_its_environment() -> None:
    module = Path(__file__).parents[2] / "worker" / "hiding.py"
    code = module.read_text() + "\nimport sys\nhide()\nprint('hidden', flush=True)\nsys.stdin.read()\n"
    with subprocess.Popen(
        ["/usr/bin/python3", "-I", "-S", "-c", code],
        env={"TOKEN": "secret"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"hidden\n"
        reader = subprocess.run(
            [READER, f"/proc/{worker.pid}/environ"],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
        assert reader.returncode != 0
        assert b"secret" not in reader.stdout


def test_a_worker_hides_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it reads its credentials, and whatever it is then asked to do."""
    done = []
    monkeypatch.setattr(command, "hide", lambda: done.append("hidden"))
    monkeypatch.setattr(command, "parse", lambda *_: sys.exit("parsed"))
    with pytest.raises(SystemExit, match="parsed"):
        command.main()
    assert done == ["hidden"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("503, url='https://a.b/c?sv=1&sig=secret%3D'", "503, url='https://a.b/c?…'"),
        ("https://a.b/c?secret and /d?sig=secret, <http://x/?bewit=secret>", "https://a.b/c?… and /d?… <http://x/?…>"),
        ("https://me:secret@a.b/c", "https://a.b/c"),
        ("is it there? yes=1", "is it there? yes=1"),
    ],
)
def test_urls_are_shown_without_what_signs_them(text: str, wanted: str) -> None:
    assert without_secrets(text) == wanted
    assert shown(ValueError(text)) == wanted
    assert wanted in said(text).decode()


def test_an_error_without_words_is_shown_by_its_name() -> None:
    assert shown(TimeoutError()) == "TimeoutError"


def test_the_workers_log_has_no_signature_and_no_line_of_a_tasks_making() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(Formatter("%(levelname)s %(message)s"))
    log = logging.Logger("of this test")
    log.addHandler(handler)
    try:
        raise ValueError("https://a.b/?sig=secret")
    except ValueError:
        log.exception("file %s", "a\nERROR forged\x1b[2J")
    log.info("%s", "https://a.b/?sig=secret")
    lines = written.getvalue().splitlines()
    assert lines[0] == "ERROR file a\\nERROR forged\\x1b[2J"
    assert lines[1].startswith("Traceback")
    assert "secret" not in written.getvalue()


async def test_a_poll_url_that_fails_is_logged_without_its_signature(caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def fail(_: web.BaseRequest) -> web.Response:
        asked.set()
        return web.Response(status=503)

    runner = web.ServerRunner(web.Server(fail))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/queue/messages?sp=p&sig=SECRET"

    class FakeQueue:
        async def pollTaskUrls(self, *_: str) -> object:  # noqa: N802 - the client's name
            until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            return {"queues": [{"signedPollUrl": url}], "expires": until}

    options = Options(
        root_url="https://tc.example.com", credentials={}, task_queue_id="a/b", worker_group="g", worker_id="w"
    )
    worker = Worker(options)
    async with aiohttp.ClientSession() as session:
        source = SignedUrls(cast(Queue, FakeQueue()), session, Advice(), options)
        working = asyncio.create_task(worker._take_work(source))
        await asyncio.wait_for(asked.wait(), 30)
        worker.shut_down()
        await asyncio.wait_for(working, 30)
    await runner.cleanup()
    assert "/queue/messages?…" in caplog.text
    assert "SECRET" not in caplog.text
