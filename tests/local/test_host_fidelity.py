"""The local host shows functions exactly what Microsoft's own worker library shows them.

Both run the same app under Python 3.13, and the local host also under this Python. What is fed to the library is
written out by hand: it is what the deployed host sends to a worker.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.infra import templates
from tests.local import python313
from tests.local.fidelity import HOST, TRACE, Document
from tools.local.host.config import parse_host_json
from tools.local.host.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = {"APPLICATIONINSIGHTS_CONNECTION_STRING": "", "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": ""}
SAMPLE = Path(__file__).parent / "sample_app"
SAMPLE_SETTINGS = {"SEEN_FILE": os.devnull}

MESSAGE = {
    "id": "5a1bb1c4-0000-4f51-b1a1-a7a39eb92a3c-not-a-uuid",
    "content": "eyJkbyI6ICLDpCJ9",  # {"do": "ä"}
    "dequeue_count": 2,
    "inserted_on": "2026-11-21T00:00:00+00:00",
    "expires_on": "9999-12-31T23:59:59+00:00",
    "next_visible_on": "2026-11-21T00:10:00+00:00",
    "pop_receipt": "AgAAAAMAAAAAAAAA==",
}
MESSAGE_WIRE = {
    "payload": {"string": '{"do": "ä"}'},
    "metadata": {
        "Id": {"string": MESSAGE["id"]},
        "PopReceipt": {"string": MESSAGE["pop_receipt"]},
        "DequeueCount": {"json": 2},
        "InsertionTime": {"json": "2026-11-21T00:00:00+00:00"},
        "ExpirationTime": {"json": "9999-12-31T23:59:59+00:00"},
        "NextVisibleTime": {"json": "2026-11-21T00:10:00+00:00"},
    },
}


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python that has the library."""
    found = python313.python_with_library()
    if found is None:
        pytest.skip("no Python 3.13 found (on the PATH, or among pyenv's versions), which Microsoft's library needs")
    return found


def observe(interpreter: Path, side: str, app: Path, given: Document, settings: Mapping[str, str]) -> Any:
    """Run one side of the comparison in a process of its own."""
    done = subprocess.run(
        [str(interpreter), "-W", "error", "-m", "tests.local.fidelity", side, str(app)],
        input=json.dumps(given),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(python: Path, app: Path, stimuli: Sequence[Document], settings: Mapping[str, str]) -> Any:
    """Both sides must agree; returns what the library's functions saw."""
    prefix = parse_host_json((app / "host.json").read_text()).route_prefix
    given = {"stimuli": stimuli, "prefix": prefix}
    expected = observe(python, "library", app, given, settings)
    for interpreter in (python, Path(sys.executable)):
        found = observe(interpreter, "host", app, given, settings)
        assert found["functions"] == expected["functions"]
        for stimulus, ours, theirs in zip(stimuli, found["results"], expected["results"], strict=True):
            assert ours == theirs, stimulus
    return expected


def http(
    function: str,
    target: str,
    *,
    method: str = "GET",
    headers: Sequence[tuple[str, str]] = (),
    body: bytes = b"",
    path_mode: str = "local",
    result: str = "response",
    **wire: Any,
) -> Document:
    """A request. `wire` holds what differs from the plain case in what the deployed host makes of it."""
    sent = [("host", HOST), ("traceparent", TRACE), *headers]
    return {
        "function": function,
        "result": result,
        "raw": {"method": method, "target": target, "headers": sent, "body": body.hex(), "path_mode": path_mode},
        "wire": {
            "payload": {
                "http": {
                    "method": {"string": method},
                    "url": {"string": wire.get("url", f"http://{HOST}{target}")},
                    "headers": {"host": HOST, "traceparent": TRACE, **wire.get("seen_headers", dict(headers))},
                    "params": wire.get("params", {}),
                    "query": wire.get("query", {}),
                    "body": {"bytes": body.hex()},
                }
            }
        },
    }


def message(function: str, result: str = "none") -> Document:
    """A queue message."""
    return {"function": function, "result": result, "raw": {"message": MESSAGE}, "wire": MESSAGE_WIRE}


def timer(function: str, *, past_due: bool, status: tuple[str, str, str] | None, result: str = "none") -> Document:
    """A timer that is due; `status`: last run, next one, last update."""
    wire_status = status and {"Last": status[0], "Next": status[1], "LastUpdated": status[2]}
    information = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": wire_status, "IsPastDue": past_due}
    return {
        "function": function,
        "result": result,
        "raw": {"status": status, "past_due": past_due},
        "wire": {"payload": {"json": information}},
    }


SAMPLE_STIMULI = [
    http("item", "/items/plain", params={"name": "plain"}),
    http(
        "item",
        "/items/caf%C3%A9%2Fx%3Ay?b=2&a=1&A=%20x+y&empty=&bare",
        params={"name": "café%2Fx:y"},
        url=f"http://{HOST}/items/caf%C3%A9%2Fx:y?b=2&a=1&A=%20x+y&empty=&bare",
        query={"b": "2", "a": "1, x y"},
    ),
    http(
        "item",
        "/items/x",
        method="PUT",
        body=b'{"one": [1, "\xc3\xa4"]}',
        headers=[("Content-Type", "application/json"), ("X-Many", "1"), ("x-many", "2"), ("content-length", "19")],
        seen_headers={"content-type": "application/json", "x-many": "1,2", "content-length": "19"},
        params={"name": "x"},
    ),
    http("item", "/items/x", method="PUT", body=b"\xff not JSON", params={"name": "x"}),
    http(
        "files",
        "/files/a%2Fb/c%20d?x=%2F",
        path_mode="azure",
        params={"rest": "a/b/c d"},
        url=f"http://{HOST}/files/a/b/c%20d?x=%2F",
        query={"x": "/"},
        seen_headers=dict.fromkeys(("x-original-url", "x-waws-unencoded-url"), "/files/a%2Fb/c%20d?x=%2F"),
    ),
    http("files", "/files"),
    http("files", "/files/x", params={"rest": "x"}, result="none"),
    http("files", "/files/x", params={"rest": "x"}, result="raise"),
    http("words", "/words", result="text"),
    message("work"),
    message("work_in_thread"),
    message("work", result="raise"),
    message("work", result="text"),
    timer("tick", past_due=False, status=None),
    timer(
        "tick",
        past_due=True,
        status=("2026-11-21T00:00:00+00:00", "2026-11-21T00:05:00+00:00", "2026-11-21T00:00:01+00:00"),
    ),
]


@pytest.mark.large
def test_the_sample_app_is_indexed_and_invoked_as_by_the_worker_library(python: Path) -> None:
    expected = compare(python, SAMPLE, SAMPLE_STIMULI, SAMPLE_SETTINGS)
    assert set(expected["functions"]) == {"item", "files", "words", "answers", "work", "work_in_thread", "tick"}
    by_result = {
        stimulus["result"]: result for stimulus, result in zip(SAMPLE_STIMULI, expected["results"], strict=True)
    }
    assert by_result["response"]["answer"]["status"] == 202
    assert by_result["text"]["succeeded"] is False, "a queue function must not return a value"
    assert all(result["seen"] for result in expected["results"])


OWN_SETTINGS = {
    "local": read_settings(ROOT / "local.settings.example.json"),
    "deployed": {**templates.settings("large, closed"), **NOWHERE},
}
"""Those of the example, and those that the templates set; telemetry goes nowhere."""


@pytest.mark.parametrize("name", OWN_SETTINGS)
@pytest.mark.large
def test_the_repositorys_own_app_is_indexed_and_invoked_as_by_the_worker_library(python: Path, name: str) -> None:
    settings = OWN_SETTINGS[name]
    listed = observe(python, "library", ROOT, {"stimuli": [], "prefix": ""}, settings)["functions"]
    stimuli = [stimulus for function in listed for stimulus in generic_stimuli(function, listed[function])]
    assert {function["decoded as"] for function in listed.values()} >= {"httpTrigger", "queueTrigger", "timerTrigger"}
    assert {stimulus["function"] for stimulus in stimuli} == listed.keys(), "each function, not one of each kind"
    compare(python, ROOT, stimuli, settings)


def test_the_local_host_obeys_what_the_templates_put_in_the_place_of_host_json() -> None:
    text = (ROOT / "host.json").read_text()
    batches = {
        profile: parse_host_json(text, templates.settings(f"{profile}, bare")).queues for profile in templates.PROFILES
    }
    assert {name: (each.batch_size, each.new_batch_threshold) for name, each in batches.items()} == {
        "small": (8, 4),
        "large": (32, 16),
    }


def generic_stimuli(name: str, function: Document) -> list[Document]:
    """What every function of a kind must be able to take, and each way in which it may end."""
    trigger = next(binding for binding in function["bindings"] if binding["name"] == function["parameter"])
    match trigger["type"]:
        case "httpTrigger":
            prefix = parse_host_json((ROOT / "host.json").read_text()).route_prefix
            template = f"{prefix}/{trigger['route']}".strip("/")
            methods = trigger["methods"] or ["GET"]
            found = [each for method in methods for each in _generic_requests(name, template, method)]
            return [*found, *({**found[0], "result": result} for result in ("none", "raise", "text"))]
        case "queueTrigger":
            return [message(name, result) for result in ("none", "raise", "text")]
        case _:
            status = ("2026-11-21T00:00:00+00:00", "2026-11-21T00:05:00+00:00", "2026-11-21T00:00:01+00:00")
            return [
                timer(name, past_due=past_due, status=known, result=result)
                for past_due, known in ((False, None), (True, None), (True, status))
                for result in ("none", "raise")
            ]


def _generic_requests(name: str, template: str, method: str) -> list[Document]:
    """Requests that fill a template's parameters with values which the platform re-encodes."""
    parameters = re.findall(r"\{(\**)(\w+)\??\}", template)
    assert template.count("{") == len(parameters), f"{template}: a constraint needs a fitting value here"
    plain, encoded = "a b%2Fc", "a%20b%2Fc"
    path = "/" + re.sub(r"\{[^}]*\}", encoded, template)
    body = b'{"payload": {}}'
    common: dict[str, Any] = {"method": method, "body": body, "headers": [("content-type", "application/json")]}
    raw = f"{path}?limit=2"
    azure_headers = {"content-type": "application/json", "x-original-url": raw, "x-waws-unencoded-url": raw}
    catch_all = len(parameters) == 1 and parameters[0][0] == "*"
    requests = [http(name, raw, params={key: plain for _, key in parameters}, query={"limit": "2"}, **common)]
    if catch_all or not parameters:
        decoded = plain.replace("%2F", "/")
        requests.append(
            http(
                name,
                raw,
                path_mode="azure",
                url=f"http://{HOST}{path.replace('%2F', '/')}?limit=2",
                params={key: decoded for _, key in parameters},
                query={"limit": "2"},
                seen_headers=azure_headers,
                **common,
            )
        )
    return requests
