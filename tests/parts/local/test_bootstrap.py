"""The first run of ./dev, before there is anything to import: what it sets up, and what it says is missing."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tools.local import bootstrap
from tools.local.bootstrap import SetupError, Step, run_quietly, set_up

ROOT = Path(__file__).resolve().parents[3]


def _step(root: Path, runs: list[str], title: str = "packages") -> Step:
    (root / "lock").write_text("1")

    def install(where: Path) -> None:
        runs.append(title)
        (where / "out").mkdir(exist_ok=True)
        (where / "out" / "tool").touch()

    return Step(title=title, inputs=("lock",), stamp="out/.stamp", proof="out/tool", install=install)


def test_a_step_runs_once_and_again_when_its_inputs_change_or_its_output_has_gone(tmp_path: Path) -> None:
    runs: list[str] = []
    step = _step(tmp_path, runs)
    set_up(tmp_path, [step])
    set_up(tmp_path, [step])
    assert len(runs) == 1
    (tmp_path / "lock").write_text("2")
    set_up(tmp_path, [step])
    assert len(runs) == 2
    (tmp_path / "out" / "tool").unlink()
    set_up(tmp_path, [step])
    assert len(runs) == 3


def test_two_runs_at_once_install_once(tmp_path: Path) -> None:
    runs: list[str] = []
    quick = _step(tmp_path, runs)
    entered, go_on = threading.Event(), threading.Event()

    def slow(where: Path) -> None:
        entered.set()
        assert go_on.wait(10)
        quick.install(where)

    step = Step(title="slow", inputs=quick.inputs, stamp=quick.stamp, proof=quick.proof, install=slow)
    threads = [threading.Thread(target=set_up, args=(tmp_path, [step])) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("reason", "variable"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError: Temporary failure in "
            "name resolution': /simple/typer/",
            "PIP_INDEX_URL",
        ),
        ("npm error code EAI_AGAIN", "npm_config_registry"),
    ],
)
def test_without_a_network_that_is_said_and_nothing_else(tmp_path: Path, reason: str, variable: str) -> None:
    output = f"{reason}\nERROR: Cannot install typer\nERROR: ResolutionImpossible: for help visit the documentation"
    (tmp_path / "pip.py").write_text(f"raise SystemExit({output!r})")
    with pytest.raises(SetupError) as caught:
        run_quietly([sys.executable, "pip.py"], tmp_path)
    said = str(caught.value).splitlines()
    assert said[1] == reason
    assert "ResolutionImpossible" not in said
    assert len(said) == 3
    assert said[-1].startswith("The package index could not be reached: is there a network?")
    assert variable in said[-1]


def test_the_stamps_cover_every_lock_file() -> None:
    names = {name for step in bootstrap.STEPS for name in step.inputs}
    assert names == {
        "requirements.txt",
        "requirements/dev.txt",
        "tools/package.json",
        "tools/package-lock.json",
        "tools/.npmrc",
        "tools/local/console_vendor.py",
    }
    assert all((ROOT / name).exists() for name in names)


def _bin(folder: Path, *tools: str) -> str:
    """Returns a PATH with these programs only."""
    folder.mkdir()
    for tool in tools:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return str(folder)


def _dev(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("sh") or "/bin/sh", str(ROOT / "dev"), *arguments],
        env={"PATH": path, "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _python(folder: Path) -> str:
    """Returns a PATH entry whose python3 is this interpreter."""
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python3").chmod(0o755)
    return str(folder)


def test_no_node_on_the_path(tmp_path: Path) -> None:
    _bin(tmp_path / "bin", "dirname", "sh")
    result = _dev(_python(tmp_path / "bin"), "down")
    assert result.returncode == 1
    assert "node is not on the PATH" in result.stderr
    assert "Install" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("with_apt", [True, False])
def test_no_fitting_python_on_the_path(tmp_path: Path, with_apt: bool) -> None:
    folder = Path(_bin(tmp_path / "bin", "dirname", "sh"))
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    if with_apt:
        (folder / "apt-get").symlink_to("/bin/true")
    result = _dev(str(folder), "down")
    assert result.returncode == 1
    assert "Python 3.11, 3.12 or 3.13 is needed" in result.stderr
    assert ("sudo apt-get install python3 python3-venv" in result.stderr) == with_apt
