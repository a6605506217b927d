"""Imports the app as the Functions worker does, and says what keeps it from being imported.

A worker that cannot import the app leaves the host running: every path is 404, the platform's own ping is 200, and the
console has no line about it. `./dev package` imports what it has made; after a deployment the smoke test imports this
checkout with the settings that Azure has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.local import settings_docs
from tools.local.state import ROOT

_INDEX = """
import importlib, os, sys
sys.path.insert(0, sys.argv[1])
try:
    app = importlib.import_module("function_app")
    found = sorted(each.get_function_name() for each in app.app.get_functions())
except BaseException as error:
    lines = str(error) if type(error).__name__ == "SettingsError" else __import__("traceback").format_exc()
    print(lines, file=sys.stderr, flush=True)
    os._exit(1)
print(*found, flush=True)
os._exit(0)  # without waiting for what has begun in threads
"""
_REFERENCE = "@Microsoft.KeyVault("
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")


class NotLoaded(Exception):
    """The app cannot be imported; the message says why."""


def functions(
    folder: Path, settings: Mapping[str, str], *, python: Path | None = None, packages: Path | None = None
) -> list[str]:
    """Returns the names of the functions that the app in a folder has with these settings. Raises NotLoaded. Settings
    that refer to a vault get a stand-in, and telemetry goes nowhere."""
    stand_ins = {
        name: settings_docs.EXAMPLE_VALUES.get(name, "stand-in") if value.startswith(_REFERENCE) else value
        for name, value in settings.items()
    }
    environment = {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        **{name: value for name, value in stand_ins.items() if value},
        "OTEL_SDK_DISABLED": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONPATH": str(packages)} if packages else {}),
    }
    command = [str(python or sys.executable), "-c", _INDEX, str(folder)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise NotLoaded(done.stderr.strip() or f"its import ends the process with exit code {done.returncode}")
    return done.stdout.split()


def main() -> int:
    """Imports this checkout with the settings on standard input, as `az functionapp config appsettings list` prints
    them."""
    try:
        given: Any = json.load(sys.stdin)
        settings = {str(each["name"]): str(each["value"] or "") for each in given}
    except (ValueError, KeyError, TypeError):
        print("loads: these are no settings: az functionapp config appsettings list … | ./dev loads", file=sys.stderr)
        return 2
    try:
        found = functions(ROOT, settings)
    except NotLoaded as error:
        print(f"The app cannot be imported with its settings:\n{error}")
        return 1
    print(f"The app can be imported with its settings, and has {len(found)} functions.")
    return 0
