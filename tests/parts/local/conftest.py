"""Fixtures for the tests of the local stack."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.parts.local.packages import PYTHON
from tools.local import bootstrap, package
from tools.local.service_bus import ServiceBus
from tools.local.state import ROOT

SDK_MODULES = ("_servicebus_sender", "_servicebus_receiver", "_pyamqp.client")
"""Modules of azure.servicebus that sleep between looks at a connection."""


@pytest.fixture(scope="session")
def service_bus() -> Iterator[ServiceBus]:
    """Yields a broker without topics, one per test process. Tests declare theirs; for faults they start their own."""
    with ServiceBus.start() as running:
        yield running


@pytest.fixture
def quick_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the sync SDK's naps while it opens and closes links, which take a second per link and test nothing.

    What it sends and receives stays the same; the tests of faults and of the asynchronous SDK go without this.
    """

    def nap(seconds: float) -> None:
        time.sleep(min(seconds, 0.005))

    quick = SimpleNamespace(**{**vars(time), "sleep": nap})
    for module in SDK_MODULES:
        monkeypatch.setattr(f"azure.servicebus.{module}.time", quick)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacks the whole package into an empty folder."""
    made = package.make(tmp_path_factory.mktemp("package"), python=PYTHON)
    folder = tmp_path_factory.mktemp("app")
    package.unpack(made.zip, folder)
    assert made.bill is not None
    shutil.copy(made.bill, folder / "bill.json")
    return folder


@pytest.fixture(scope="session")
def interpreter(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a fresh environment with a web server alone: all that the host needs beside the package; its Python."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([str(PYTHON), "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    (folder / "server.txt").write_text(bootstrap.locked(ROOT, "uvicorn", "click", "h11"))
    locked = ["--require-hashes", "--no-deps", "-r", str(folder / "server.txt")]
    subprocess.run([*pip, *locked], check=True, capture_output=True)
    return python
