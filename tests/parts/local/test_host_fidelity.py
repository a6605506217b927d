"""The local host shows functions exactly what Microsoft's own worker library shows them.

Both run the same app under Python 3.13, and the local host also under this Python. What is fed to the library is
written out by hand: it is what the deployed host sends to a worker.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local import python313
from tests.parts.local.fidelity import HOST, TRACE, Document
from tests.promises.infra import templates
from tools.local.host.config import parse_host_json
from tools.local.host.settings import read_settings

ROOT = Path(__file__).resolve().parents[3]
NOWHERE = {"APPLICATIONINSIGHTS_CONNECTION_STRING": "", "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": ""}
SAMPLE = Path(__file__).parent / "sample_app"

MESSAGE = {
    "id": "5a1bb1c4-0000-4f51-b1a1-a7a39eb92a3c-not-a-uuid",
    "content": "eyJkbyI6ICLDpCJ9",  # {"do": "ä"}
    "dequeue_count": 2,
    "inserted_on": "2026-11-21T00:00:00+00:00",
    "expires_on": "9999-12-31T23:59:59+00:00",
    "next_visible_on": "2026-11-21T00:10:00+00:00",
    "pop_receipt": "AgAAAAMAAAAAAAAA==",
}
TEXT = '{"do": "ä"}'
METADATA = {
    "Id": {"string": MESSAGE["id"]},
    "PopReceipt": {"string": MESSAGE["pop_receipt"]},
    "DequeueCount": {"json": 2},
    "InsertionTime": {"json": "2026-11-21T00:00:00+00:00"},
    "ExpirationTime": {"json": "9999-12-31T23:59:59+00:00"},
    "NextVisibleTime": {"json": "2026-11-21T00:10:00+00:00"},
}


@pytest.fixture(scope="module")
def python() -> Path:
    """Returns a Python that has the library."""
    found = python313.python_with_library()
    if found is None:
        pytest.skip("no Python 3.13 found (on the PATH, or among pyenv's versions), which Microsoft's library needs")
    return found


def observe(interpreter: Path, side: str, app: Path, stimuli: Sequence[Document], settings: Mapping[str, str]) -> Any:
    """Runs one side of the comparison in a process of its own."""
    done = subprocess.run(
        [str(interpreter), "-W", "error", "-m", "tests.parts.local.fidelity", side, str(app)],
        input=json.dumps(stimuli),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(python: Path, app: Path, stimuli: Sequence[Document], settings: Mapping[str, str]) -> Any:
    """Compares what both sides show the app's functions, which must agree; returns what the library's functions saw."""
    expected = observe(python, "library", app, stimuli, settings)
    for interpreter in (python, Path(sys.executable)):
        found = observe(interpreter, "host", app, stimuli, settings)
        assert found["functions"] == expected["functions"]
        for stimulus, ours, theirs in zip(stimuli, found["results"], expected["results"], strict=True):
            assert ours == theirs, stimulus
    return expected


def http(function: str, result: str = "response", *, method: str = "GET", body: bytes = b"", **more: Any) -> Document:
    """Returns a request as the host sends it to the app's process (for raw ones: tests/parts/local/vectors.py)."""
    request = {
        "method": {"string": method},
        "url": {"string": f"http://{HOST}/{function}/caf%C3%A9%2Fx:y?b=2&a=1&A=%20x+y&empty=&bare"},
        "headers": {"host": HOST, "traceparent": TRACE, "x-many": "1,2", "content-type": "application/json"},
        "params": {"name": "café%2Fx:y"},
        "query": {"b": "2", "a": "1, x y"},
        "body": {"bytes": body.hex()},
    }
    return {"function": function, "result": result, "payload": {"http": request | more}}


def message(function: str, result: str, *, binary: bool) -> Document:
    """Returns a queue message; `binary` says that the function's binding asks for bytes."""
    payload = {"bytes": TEXT.encode().hex()} if binary else {"string": TEXT}
    return {"function": function, "result": result, "message": MESSAGE, "payload": payload, "metadata": METADATA}


def timer(
    function: str, result: str = "none", *, past_due: bool = False, status: Sequence[str] | None = None
) -> Document:
    """Returns a timer that is due; `status` has its last run, the next one, and the last update."""
    known = status and dict(zip(("Last", "Next", "LastUpdated"), status, strict=True))
    information = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": known, "IsPastDue": past_due}
    return {"function": function, "result": result, "timer": (status, past_due), "payload": {"json": information}}


STATUS = ("2026-11-21T00:00:00+00:00", "2026-11-21T00:05:00+00:00", "2026-11-21T00:00:01+00:00")
STIMULI: Mapping[str, Callable[[str, Document], list[Document]]] = {
    "httpTrigger": lambda name, _: [
        *(http(name, result) for result in ("response", "none", "raise", "text")),
        http(name, method="PUT", body=b'{"one": [1, "\xc3\xa4"]}'),
        http(name, method="PUT", body=b"\xff not JSON", params={}, query={}),
    ],
    "queueTrigger": lambda name, trigger: [
        message(name, result, binary=trigger.get("dataType") == "BINARY") for result in ("none", "raise", "text")
    ],
    "timerTrigger": lambda name, _: [
        *(timer(name, result) for result in ("none", "raise")),
        timer(name, past_due=True),
        timer(name, past_due=True, status=STATUS),
    ],
}
"""For each type of trigger, what every function must take, and each way in which it may end."""


@pytest.mark.large
@pytest.mark.parametrize(
    ("app", "settings"),
    [
        (SAMPLE, {}),
        (ROOT, read_settings(ROOT / "local.settings.example.json")),
        (ROOT, {**templates.settings("large, closed"), **NOWHERE}),
    ],
    ids=["sample", "own, with the example's settings", "own, with those of the templates"],
)
def test_an_app_is_indexed_and_invoked_as_by_the_worker_library(
    python: Path, app: Path, settings: dict[str, str]
) -> None:
    listed = observe(python, "library", app, [], settings)["functions"]
    triggers = {
        name: next(each for each in function["bindings"] if each["name"] == function["parameter"])
        for name, function in listed.items()
    }
    assert {trigger["type"] for trigger in triggers.values()} == STIMULI.keys()
    stimuli = [each for name, trigger in triggers.items() for each in STIMULI[trigger["type"]](name, trigger)]
    found = compare(python, app, stimuli, settings)
    assert all(result["seen"] for result in found["results"])
    assert {result["succeeded"] for result in found["results"]} == {True, False}


def test_the_local_host_obeys_what_the_templates_put_in_the_place_of_host_json() -> None:
    text = (ROOT / "host.json").read_text()
    batches = {
        profile: parse_host_json(text, templates.settings(f"{profile}, bare")).queues for profile in templates.PROFILES
    }
    assert {name: (each.batch_size, each.new_batch_threshold) for name, each in batches.items()} == {
        "small": (8, 4),
        "large": (32, 16),
    }
