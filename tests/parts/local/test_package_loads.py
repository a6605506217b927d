"""The package as the platform loads it: by Microsoft's worker library, with the settings of the templates."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local import python313 as library
from tests.parts.local.packages import NEEDS_PYTHON, PYTHON
from tests.promises.infra import templates
from tools.local import package
from tools.local.state import ROOT

NOWHERE = "InstrumentationKey=00000000-0000-0000-0000-000000000000;IngestionEndpoint=http://127.0.0.1:1/"
"""Connection string with which telemetry is on, as deployed, and goes nowhere."""

_INDEX = """
import json, os, sys
from pathlib import Path
from tests.parts.local.worker_library import WorkerLibrary
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
found = WorkerLibrary(folder)
import function_app, shared.app.services, pydantic
files = [module.__file__ for module in (function_app, shared.app.services, pydantic)]
bindings = {name: [json.loads(raw) for raw in found.metadata(name).raw_bindings] for name in found.names()}
print(json.dumps({"files": files, "bindings": bindings}), flush=True)
os._exit(0)  # without a farewell of the exporters
"""


def _found(python: str, program: str, unpacked: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns what a program finds in the package: the last line that it prints, as JSON."""
    command = [python, "-c", program, str(unpacked)]
    done = subprocess.run(command, env=environment, cwd=unpacked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@NEEDS_PYTHON
@pytest.mark.large
@pytest.mark.parametrize("profile", templates.PROFILES)
def test_the_platforms_own_library_indexes_it_with_the_settings_of_the_infrastructure(
    unpacked: Path, profile: str
) -> None:
    python = library.python_with_library()
    assert python is not None
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(unpacked / package.SITE_PACKAGES), str(ROOT))),
        **{name: value for name, value in templates.settings(f"{profile}, bare").items() if value},
        "APPLICATIONINSIGHTS_CONNECTION_STRING": NOWHERE,
        "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": "",
    }
    found = _found(str(python), _INDEX, unpacked, environment)
    assert all(file.startswith(str(unpacked)) for file in found["files"])
    triggers = [binding for bindings in found["bindings"].values() for binding in bindings]
    kinds = {binding["type"] for binding in triggers}
    assert {"httpTrigger", "queueTrigger", "timerTrigger"} <= kinds
    settings = templates.settings(f"{profile}, bare")
    for binding in triggers:
        if binding["type"] == "queueTrigger":
            assert binding["queueName"] in templates.document("entities.json")["queues"]
            assert f"{binding['connection']}__queueServiceUri" in settings
    ready = {group["name"].partition(":")[2] for group in templates.document(f"profiles/{profile}.json")["alwaysReady"]}
    assert ready - {""} <= found["bindings"].keys()


_IMPORT = """
import json, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
before, began = set(sys.modules), time.process_time()
import function_app
seconds = time.process_time() - began
loaded = {name: sys.modules[name] for name in set(sys.modules) - before if sys.modules.get(name)}
files = {name: (module.__spec__.origin, module.__spec__.cached) for name, module in loaded.items()
         if getattr(module, "__spec__", None) and (module.__spec__.origin or "").endswith(".py")}
print(json.dumps({"seconds": seconds, "files": files}))
"""


@NEEDS_PYTHON
@pytest.mark.large
def test_what_the_package_imports_is_compiled_and_needed(
    unpacked: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """What a cold start imports is compiled, as no file can be written there, and has no unused telemetry."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(unpacked / package.SITE_PACKAGES),
        **{name: value for name, value in templates.settings("small, bare").items() if value},
        "APPLICATIONINSIGHTS_CONNECTION_STRING": "",
    }
    found = _found(str(PYTHON), _IMPORT, unpacked, environment)
    record_testsuite_property("import of the package, seconds of CPU", found["seconds"])
    own = {name: files for name, files in found["files"].items() if files[0].startswith(str(unpacked))}
    assert len(own) > 200
    assert [name for name, (_, compiled) in own.items() if not Path(compiled).exists()] == []
    unwanted = ("opentelemetry.sdk.", "azure.monitor.", "opentelemetry.exporter.", "pytest.", "local.", "tests.")
    assert [name for name in found["files"] if f"{name}.".startswith(unwanted)] == []
