"""./dev host-check, with a program that lists functions as Core Tools do, and serves by the local host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.local.state import ROOT

PLAYED = """\
#!{python}
import os, re, signal, subprocess, sys
assert sys.argv[1:3] == ["start", "--port"], sys.argv
command = [sys.executable, "-m", "tools.local.host", "--app-dir", ".", "--port", sys.argv[3], "--core-tools-paths"]
environment = {{**os.environ, "PYTHONPATH": {root!r}}}
host = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
signal.signal(signal.SIGINT, lambda *_: host.send_signal(signal.SIGINT))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in host.stdout:
    if match := re.match(r"local host: .*\\((.*)\\)", line):
        print("\\nFunctions:\\n\\n\\thttp: [GET,PUT] http://localhost:" + sys.argv[3] + "/{{*path}}\\n")
        line = "".join(f"\\t{{name}}: queueTrigger\\n\\n" for name in match[1].split())
    print(line, end="", flush=True)
sys.exit(host.wait())
"""
SOME = "tests/promises/host/test_claims.py::test_a_claim_says_all"


def run(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command with this PATH."""
    command = [sys.executable, "-m", "tools.local.cli", "host-check", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def test_it_says_how_to_install_core_tools() -> None:
    done = run("/nowhere")
    assert done.returncode == 1
    assert "npm install --global azure-functions-core-tools" in done.stderr


@pytest.mark.large
@pytest.mark.timeout(900)
def test_the_package_is_served_to_the_tests_that_are_named(tmp_path: Path) -> None:
    func = tmp_path / "func"
    func.write_text(PLAYED.format(python=sys.executable, root=str(ROOT)))
    func.chmod(0o755)
    done = run(f"{tmp_path}:{os.environ['PATH']}", SOME)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "served by func start" in done.stderr
