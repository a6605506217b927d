"""`./dev host-check`: the app's package on Microsoft's own host, by Core Tools, beside the local storage and broker.

The end-to-end tests, the raw requests and the floods of bodies run against it: the next version of the host is met here
before operators meet it.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.local import checks, core_tools, package, python313
from tools.local.control import fail, say
from tools.local.stack import HOST_MODULE
from tools.local.state import ROOT

SUITE = ("tests/promises/host", "tests/promises/clients", "tests/parts/local/test_host_vectors.py")
_PYTHON = "languageWorkers__python__defaultExecutablePath"
"""App setting with the interpreter that Core Tools run the app with."""


def main(arguments: Sequence[str]) -> int:
    """Runs the suite, or what the arguments name for pytest; pytest's exit code. Ends with a message if it cannot."""
    if shutil.which(core_tools.PROGRAM) is None:
        fail(core_tools.MISSING)
    python = python313.find()
    if python is None or sys.platform != "linux":
        say("Without Linux and Python 3.13 the package's own libraries cannot be loaded: those of .venv are taken.")
        python = None
    with tempfile.TemporaryDirectory(prefix="host-check-") as scratch:
        try:
            made = package.make(Path(scratch), dependencies=python is not None, python=python)
        except package.PackageError as error:
            fail(str(error))
        app = Path(scratch) / "app"
        with zipfile.ZipFile(made.zip) as content:
            content.extractall(app)
        environment = checks.clean_environment() | {
            HOST_MODULE: core_tools.__name__,
            core_tools.PACKAGE: str(app),
            _PYTHON: str(python or sys.executable),
        }
        chosen = list(arguments) or [*SUITE, "-m", "not large"]
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *chosen]
        say(f"The package is served by {core_tools.PROGRAM} start")
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
