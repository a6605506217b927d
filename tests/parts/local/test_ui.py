"""`./dev ui`: an address that signs in to the console of the local stack, once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import taskcluster

from tests.parts.local.stacks import free_ports
from tools.local import handover, state, ui
from tools.local.state import StackState

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CREDENTIALS = {"clientId": "a", "accessToken": "b", "certificate": "{}"}


def test_a_code_is_redeemed_once(tmp_path: Path) -> None:
    code = handover.hand_over(tmp_path, CREDENTIALS, NOW)
    assert handover.redeem(tmp_path, code[:-1], NOW) is None
    assert handover.redeem(tmp_path, code, NOW + timedelta(seconds=59)) == CREDENTIALS
    assert handover.redeem(tmp_path, code, NOW) is None
    assert [*tmp_path.iterdir()] == []


def test_of_many_who_redeem_a_code_one_gets_the_credentials(tmp_path: Path) -> None:
    code = handover.hand_over(tmp_path, CREDENTIALS, NOW)
    with ThreadPoolExecutor(16) as threads:
        got = [*threads.map(lambda _: handover.redeem(tmp_path, code, NOW), range(64))]
    assert [one for one in got if one is not None] == [CREDENTIALS]


def test_a_code_is_worth_nothing_after_a_minute(tmp_path: Path) -> None:
    code = handover.hand_over(tmp_path, CREDENTIALS, NOW)
    assert handover.redeem(tmp_path, code, NOW + timedelta(seconds=60)) is None
    assert [*tmp_path.iterdir()] == []


def redeemed(address: str, **headers: str) -> tuple[int, Any]:
    """Sends what the page of an address would send, and returns the answer."""
    parts = urlsplit(address)
    origin = f"{parts.scheme}://{parts.netloc}"
    sent = {"content-type": "application/json", "origin": origin, **headers}
    answer = requests.post(f"{origin}{parts.path}", data=json.dumps({"code": parts.fragment}), headers=sent, timeout=30)
    return answer.status_code, answer.json()


def _ui(port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.local.cli", "ui", "--no-open", "--port", str(port)]
    return subprocess.run(command, cwd=state.ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
@pytest.mark.large
def test_the_demo_stays_and_its_console_can_be_used() -> None:
    port = free_ports().api
    command = [sys.executable, "-m", "tools.local.cli", "demo", "--stay", "--port", str(port)]
    demo = subprocess.Popen(command, cwd=state.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert demo.stdout is not None
        shown = ""
        while "The stack stays until Ctrl-C" not in shown:
            line = demo.stdout.readline()
            assert line, shown
            shown += line
        assert "Everything ended as it should." in shown
        assert re.search("watch it in a browser, within a minute: http://.*/local/sign-in#.{43}\n", shown)
        address = shown.rpartition(": ")[2].strip()
        other = _ui(port).stdout.strip()
        assert other.partition("#")[0] == address.partition("#")[0]
        for strange in ({"origin": "http://evil.example"}, {"origin": ""}, {"content-type": "text/plain"}):
            assert redeemed(other, **strange) == (403, {}), "it is asked for by its own page alone"
        status, credentials = redeemed(other)
        assert status == 200
        assert redeemed(other) == (403, {})
        assert credentials["clientId"] == ui.CLIENT_ID
        certificate = json.loads(credentials["certificate"])
        assert certificate["expiry"] - certificate["start"] == timedelta(hours=1) / timedelta(milliseconds=1)
        root_url = address.partition("/local/")[0]
        options = {"rootUrl": root_url, "credentials": credentials}
        listed = taskcluster.Queue(options)._makeHttpRequest("GET", "task-groups", None)["taskGroups"]
        assert len(listed) == 2
    finally:
        demo.terminate()
        shown += demo.communicate()[0]
        shutil.rmtree(state.folder(port), ignore_errors=True)
    assert demo.returncode == 0, shown
    assert StackState.load(port) is None
