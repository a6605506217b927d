"""The worker's image: what its Dockerfile promises. CI builds it; here its entry point runs as it would there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.promises.worker.dockerfile import Stage, stages
from tools.local.bootstrap import LOCKED
from tools.local.state import ROOT
from worker.users import User

FOLDER = ROOT / "worker"
DOCKERFILE = FOLDER / "Dockerfile"
STAGES = stages(DOCKERFILE)
LAST = STAGES[-1]


def test_every_image_and_package_is_pinned() -> None:
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE))
    for stage in STAGES:
        image = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], stage.image)
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", image), image
    commands = " ".join(line for stage in STAGES for line in stage.all("RUN"))
    for package in re.findall(r"apt-get install ((?:\S+ )+?)&&", commands)[0].split():
        assert package.startswith("--") or re.fullmatch(r"[a-z-]+=\S+", package), package
    assert "--require-hashes --only-binary :all:" in commands
    assert re.fullmatch(r"3\.13\.\d+", defaults["PYTHON"])


def test_a_team_brings_any_base() -> None:
    assert LAST.image == "${BASE}"
    assert not LAST.all("RUN"), "nothing runs in the base: it may have neither shell nor package manager"
    assert not [stage for stage in STAGES if stage.all("ADD")]


def test_tasks_are_not_root_and_cannot_change_the_worker() -> None:
    """The worker is, so that no task reads its environment (test_token.py)."""
    assert LAST.all("USER") == ["0:0"], "by number: the base does not know the name"
    user = User.of(LAST.environment["WORKER_TASK_USER"])
    assert user.uid >= 1000
    assert user.gid >= 1000
    assert not [line for line in LAST.all("COPY") if "--chown" in line]
    assert LAST.environment["WORKER_WORK_DIR"] == LAST.environment["HOME"]


def test_signals_reach_the_worker() -> None:
    assert LAST.all("STOPSIGNAL") == ["SIGTERM"]
    init, end, *command = LAST.words("ENTRYPOINT")
    assert (init.rpartition("/")[2], end) == ("tini", "--")
    assert command[1:] == ["-m", "worker"]


def test_no_secret_and_no_setting_of_a_deployment_is_in_the_image() -> None:
    assert not [name for name in LAST.environment if name.startswith("TASKCLUSTER_")]
    assert "SECRET" not in DOCKERFILE.read_text(encoding="utf-8").upper()


def test_what_the_worker_imports_is_locked_in_the_versions_that_are_tested() -> None:
    def locked(path: Path) -> dict[str, tuple[str, str]]:
        """Version and hashes; for which Pythons differs by what else is installed."""
        pattern = r"^([a-z0-9-]+)==(\S+).*((?:\n    --hash=.*)+\n)"
        blocks = re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        return {name: (version, hashes) for name, version, hashes in blocks}

    ours = locked(FOLDER / "requirements.txt")
    tested = {**locked(ROOT / "requirements.txt"), **locked(ROOT / "requirements/dev.txt")}
    assert ours.items() <= tested.items()
    named = set(re.findall(r"^([a-z-]+)", (FOLDER / "requirements.in").read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= ours.keys()
    code = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py"))
    imported = set(re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) - {"worker"} == {name.replace("-", "_") for name in named}


# As the image runs it


def image(folder: Path) -> Path:
    """Returns what the image has in /opt/worker, except for its own Python and tini."""
    root = folder / "opt"
    subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)
    pip = [str(root / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *LOCKED, "-r", str(FOLDER / "requirements.txt")], check=True)
    left_out = (FOLDER / ".dockerignore").read_text(encoding="utf-8").split()
    shutil.copytree(
        FOLDER, root / "worker", ignore=shutil.ignore_patterns(*(name.rpartition("/")[2] for name in left_out))
    )
    return root


def command(stage: Stage, instruction: str, root: Path) -> list[str]:
    """Returns an instruction in exec form, as it runs there."""
    words = [word.replace("/opt/worker", str(root)) for word in stage.words(instruction)]
    return words[words.index("--") + 1 :] if "--" in words else words


@pytest.mark.large
@pytest.mark.timeout(600)  # it installs packages
def test_the_entry_point_runs_with_nothing_but_the_locked_packages(tmp_path: Path) -> None:
    root, work = image(tmp_path), tmp_path / "work"
    work.mkdir()
    assert {path.name for path in (root / "worker").iterdir()} >= {"__main__.py", "payload.schema.json"}
    assert not (root / "worker" / "Dockerfile").exists()
    environment = {name: value.replace("/work", str(work)) for name, value in LAST.environment.items()}
    environment |= {
        "PATH": "/usr/bin:/bin",
        "TASKCLUSTER_ROOT_URL": "http://127.0.0.1:9",
        "TASKCLUSTER_CLIENT_ID": "me",
        "TASKCLUSTER_ACCESS_TOKEN": "secret",
        "WORKER_TASK_QUEUE_ID": "a/b",
        "WORKER_GROUP": "g",
    }
    if os.getuid() != 0:
        environment["WORKER_TASK_USER"] = ""
    with subprocess.Popen(
        command(LAST, "ENTRYPOINT", root), cwd=root, env=environment, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        try:
            assert any("no work can be asked for" in line for line in worker.stderr)
        finally:
            worker.terminate()
        assert worker.wait(60) == 0, "no work was to be given back"
