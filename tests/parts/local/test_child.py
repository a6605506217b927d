"""Child processes: what they say when they fail, and that neither they nor their own children are left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.local.stacks import is_running, wait
from tools.local.child import Child, ChildError
from tools.local.state import ROOT

_WITH_CHILD = """\
import subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
print("child", child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_that_ends_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    child = Child.start("echo", [sys.executable, "-c", "print('no luck')"], log=tmp_path / "log")
    with pytest.raises(ChildError, match="echo ended with exit code 0:\nno luck"):
        child.wait_for("ready", timeout=10)
    child.stop()


@pytest.mark.parametrize("grace", [0, 5])
def test_what_a_child_started_ends_with_it(tmp_path: Path, grace: float) -> None:
    child = Child.start("parent", [sys.executable, "-c", _WITH_CHILD], log=tmp_path / "log")
    grandchild = int(child.wait_for(r"child (\d+)\n", timeout=10)[1])
    child.stop(grace)
    wait(lambda: not is_running(grandchild))


def test_a_tethered_module_and_what_it_started_end_with_the_parent(tmp_path: Path) -> None:
    (tmp_path / "module_with_child.py").write_text(_WITH_CHILD)
    script = (
        "import sys, time; from pathlib import Path; from tools.local.child import Child\n"
        "argv = [sys.executable, '-m', 'tools.local.tethered', 'module_with_child']\n"
        "child = Child.start('module', argv, log=Path(sys.argv[1]) / 'log', env={'PYTHONPATH': sys.argv[1]})\n"
        "print(child.pid, child.wait_for(r'child (\\d+)\\n', 10)[1], flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_running(pid) for pid in pids)
        parent.kill()
    wait(lambda: not any(is_running(pid) for pid in pids))
