"""`./dev ui`: an address that signs in to the console of the local stack."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import taskcluster

from local import state, ui
from local.state import StackState
from tests.local.stacks import free_ports

ENVIRONMENT = {
    "TASKCLUSTER_ROOT_URL": "http://localhost:7071",
    "TASKCLUSTER_CLIENT_ID": "root",
    "TASKCLUSTER_ACCESS_TOKEN": "t" * 22,
}


def credentials_of(url: str) -> dict[str, str]:
    """As the console reads them: a parameter of the fragment, JSON."""
    credentials: dict[str, str] = json.loads(parse_qs(urlsplit(url).fragment)["credentials"][0])
    return credentials


def test_the_address_has_credentials_of_an_hour_in_its_fragment() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    url = ui.address(ENVIRONMENT, now)
    parts = urlsplit(url)
    assert (parts.netloc, parts.path, parts.query) == ("localhost:7071", "/", "")
    credentials = credentials_of(url)
    assert credentials["clientId"] == ui.CLIENT_ID
    assert "t" * 22 not in url, "the root token stays here"
    certificate = json.loads(credentials["certificate"])
    assert certificate["issuer"] == "root"
    assert certificate["expiry"] - certificate["start"] == timedelta(hours=1) / timedelta(milliseconds=1)


def _ui(port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "local.cli", "ui", "--no-open", "--port", str(port)]
    return subprocess.run(command, cwd=state.ROOT, capture_output=True, text=True, check=False)


def test_without_a_stack() -> None:
    ended = _ui(free_ports().api)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "no stack runs on port" in ended.stderr


@pytest.mark.timeout(300)
@pytest.mark.large
def test_the_demo_stays_and_its_console_can_be_used() -> None:
    port = free_ports().api
    command = [sys.executable, "-m", "local.cli", "demo", "--stay", "--port", str(port)]
    demo = subprocess.Popen(command, cwd=state.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert demo.stdout is not None
        shown = ""
        while "The stack stays until Ctrl-C: " not in shown:
            line = demo.stdout.readline()
            assert line, shown
            shown += line
        assert "Everything ended as it should." in shown
        address = shown.rpartition("Ctrl-C: ")[2].strip()
        assert f"watch it in a browser: {address}" in shown
        root_url = address.partition("/#")[0]
        assert _ui(port).stdout.startswith(f"{root_url}/#credentials=")
        options = {"rootUrl": root_url, "credentials": credentials_of(address)}
        listed = taskcluster.Queue(options)._makeHttpRequest("GET", "task-groups", None)["taskGroups"]
        assert len(listed) == 2
    finally:
        demo.terminate()
        shown += demo.communicate()[0]
        shutil.rmtree(state.folder(port), ignore_errors=True)
    assert demo.returncode == 0, shown
    assert StackState.load(port) is None
