"""The documents do what they say: the scripts of the README and the tutorial run, and every command is described."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.local.stacks import free_ports
from tools.local import state
from tools.local.stack import Stack, StackOptions

ROOT = state.ROOT
README = (ROOT / "README.md").read_text()


@pytest.fixture
def stack() -> Iterator[Stack]:
    ports = free_ports()
    with Stack.start(StackOptions(ports, in_memory=True, subscriptions=("mine",))) as running:
        yield running
    shutil.rmtree(state.folder(ports.api), ignore_errors=True)


def test_the_scripts_of_the_readme_run(stack: Stack) -> None:
    """The scripts of the README run one after the other: a task's life, the URL for curl, the events."""
    lifecycle, events = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    def run(*command: str) -> str:
        return subprocess.run(
            command, env={"PATH": "/usr/bin:/bin", **stack.environment}, capture_output=True, text=True, check=True
        ).stdout

    status, url = run(sys.executable, "-c", lifecycle).splitlines()
    assert status == "completed"
    assert '"name":"hello"' in run(sys.executable, "-c", _GET, url)
    task_id = url.partition("?")[0].rpartition("/")[2]
    assert f'"taskId":"{task_id}"' in run(sys.executable, "-c", events).replace(" ", "")


TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
STACK_COMMANDS = (
    './dev up --detach --subscription mine\neval "$(./dev env)"\n',
    "./dev down\n",
)
"""Blocks of the tutorial that start and end the stack: the fixture does that, on ports of its own."""


@pytest.mark.large
def test_the_tutorial_runs(
    stack: Stack, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tutorial's blocks run in one shell and one Python session, and print the text block after them."""
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", TUTORIAL, re.DOTALL | re.MULTILINE)
    assert set(STACK_COMMANDS) <= {block for _, block in blocks}
    session: dict[str, object] = {}
    printed = ""
    with contextlib.ExitStack() as workers:
        for language, block in blocks:
            if language == "python":
                exec(compile(block, "docs/tutorial.md", "exec"), session)
                printed = capsys.readouterr().out
            elif language == "text":
                wanted = "".join(".*" if line == "…\n" else re.escape(line) for line in block.splitlines(keepends=True))
                assert re.fullmatch(wanted, printed, re.DOTALL), printed
            elif block.startswith("./dev worker "):
                workers.enter_context(running_worker(block, tmp_path))
            elif block not in STACK_COMMANDS:
                done = subprocess.run(["sh", "-ec", block], cwd=ROOT, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
                json.loads(done.stdout)


@contextlib.contextmanager
def running_worker(command: str, folder: Path) -> Iterator[None]:
    """Yields a worker of the tutorial, ended as Ctrl-C does."""
    with subprocess.Popen(["sh", "-ec", f"exec {command.strip()} --work-dir {folder}"], cwd=ROOT) as worker:
        try:
            yield
        finally:
            worker.send_signal(signal.SIGINT)


_GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
