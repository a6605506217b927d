"""Fixtures: a stage for the hooks of azd, and the package."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.azure.cloud import SUBSCRIPTION
from tests.infra.azure.stage import Stage, stage
from tests.infra.packages import PYTHON
from tools.local import bootstrap, package
from tools.local.state import ROOT


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Stage]:
    """This checkout on a stage where azd is played as well: what hooks see before the first deployment of `example`."""
    with stage(tmp_path, ROOT) as made:
        made.environment |= {
            "AZURE_ENV_NAME": "example",
            "AZURE_LOCATION": "westeurope",
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
            "QUEUE_DEPLOYMENTS": str(tmp_path / "deployments"),
        }
        yield made


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole package in an empty folder."""
    made = package.make(tmp_path_factory.mktemp("package"), python=PYTHON)
    folder = tmp_path_factory.mktemp("app")
    package.unpack(made.zip, folder)
    assert made.bill is not None
    shutil.copy(made.bill, folder / "bill.json")
    return folder


@pytest.fixture(scope="session")
def interpreter(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment: only what the local host needs besides the package, which is a server."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([str(PYTHON), "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    (folder / "server.txt").write_text(bootstrap.locked(ROOT, "uvicorn", "click", "h11"))
    locked = ["--require-hashes", "--no-deps", "-r", str(folder / "server.txt")]
    subprocess.run([*pip, *locked], check=True, capture_output=True)
    return python
