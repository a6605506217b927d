"""Imports the function_app.py of an app."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import azure.functions

from tools.local.host.errors import HostError

SCRIPT = "function_app.py"


class AppEnds(HostError):
    """The app has asked for the end of its process when it was imported."""


def load_app(directory: Path) -> azure.functions.FunctionRegister:
    """Imports `function_app.py` of the folder, and returns the one app that it defines.

    A ValueError of the app's own (a bad setting, say) is a HostError with its message, a SystemExit an AppEnds. Any
    other exception passes with its traceback. Raises HostError too if there is no such file, or not exactly one app in
    it.
    """
    script = directory / SCRIPT
    if not script.is_file():
        raise HostError(f"there is no {SCRIPT} in {directory}")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    module = _import(script)
    apps = {id(value): value for value in vars(module).values() if isinstance(value, azure.functions.FunctionRegister)}
    if len(apps) != 1:
        raise HostError(f"{script} must define one FunctionApp at its top level, not {len(apps)}")
    return next(iter(apps.values()))


def _import(script: Path) -> ModuleType:
    try:
        return importlib.import_module(script.stem)
    except ValueError as error:
        raise HostError(f"{script} failed: {error}") from error
    except SystemExit as error:
        why = error.code if isinstance(error.code, str) else f"it ended the process with code {error.code}"
        raise AppEnds(f"{script} failed: {why}") from error
