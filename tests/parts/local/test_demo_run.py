"""./dev demo as a whole, with the host killed in the middle of it: no task is lost."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.parts.local.stacks import free_ports, is_running, wait
from tools.local import state
from tools.local.demo_tasks import EXAMPLES
from tools.local.state import StackState


@pytest.fixture
def port() -> Iterator[int]:
    port = free_ports().api
    yield port
    shutil.rmtree(state.folder(port), ignore_errors=True)


@pytest.mark.timeout(300)
@pytest.mark.large
def test_all_tasks_end_as_they_should_though_the_host_is_killed(port: int) -> None:
    command = [sys.executable, "-m", "tools.local.cli", "demo", "--port", str(port)]
    environment = {**os.environ, "COLUMNS": "300", "TOPIC_PREFIX": "exchange/demo/v1/"}
    with subprocess.Popen(
        command, cwd=state.ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        shown = ""
        while "in the middle of" not in shown:
            line = demo.stdout.readline()
            assert line, shown
            shown += line
        running = StackState.load(port)
        assert running is not None
        processes = [running.supervisor, *running.children.values()]
        assert running.children[f"host-{port}"].signal(signal.SIGKILL)
        shown += demo.communicate()[0]
    assert demo.returncode == 0, shown
    assert "starting it again" in shown
    assert shown.rstrip().endswith("Everything ended as it should.")
    table = shown.partition("Tasks")[2]
    assert all(f"\n{example.name} " in table and example.shows in table for example in EXAMPLES)
    wait(lambda: not any(is_running(process.pid) for process in processes))
    assert "Unclosed" not in (state.logs_folder(port) / f"host-{port}.log").read_text()
    assert {path.name for path in state.folder(port).iterdir()} == {"logs"}
    assert StackState.load(port) is None
