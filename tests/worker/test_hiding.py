"""That a task of the worker's own user does not read the worker's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import worker.__main__ as command

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
