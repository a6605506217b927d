"""The committed compatibility matrix: whole, and of tests that are there. That they pass is seen when they run."""

from __future__ import annotations

import ast
import re

from shared.app.apis import INDEX as INDEX_API
from shared.app.apis import QUEUE
from tests.compatibility.matrix import DOCUMENT, document
from tests.compatibility.rows import BY_NAME, INDEX, INDEX_ROWS, QUEUE_ROWS, ROWS
from tools.local.state import ROOT

REWRITE = "run: ./dev test -m endpoint --write-compatibility"
LINK = re.compile(r"\[(\w+)\]\(\.\./(tests/[\w/]+\.py)\)")


def proofs() -> dict[str, list[str]]:
    """The tests that the document names, by row."""
    found, prefix = {}, ""
    for line in DOCUMENT.read_text().splitlines():
        prefix = INDEX if line == "## The Index" else prefix
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 8 and cells[1].isdecimal():
            found[prefix + cells[2]] = [f"{path}::{name}" for name, path in LINK.findall(cells[6])]
    return found


def marks_of(test: str) -> set[str]:
    """The rows that a test says it proves."""
    path, _, name = test.partition("::")
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
            return {
                str(call.args[0].value)
                for call in calls
                if ast.unparse(call.func) == "pytest.mark.endpoint" and isinstance(call.args[0], ast.Constant)
            }
    raise AssertionError(f"{test} is not there")


def test_every_row_has_a_test_that_proves_it() -> None:
    assert list(proofs()) == [row.name for row in ROWS], REWRITE
    for name, tests in proofs().items():
        assert tests, f"{name} has no test"
        for test in tests:
            assert name in marks_of(test), f"{test} does not prove {name}"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == document(proofs()), REWRITE


def test_every_test_that_proves_a_row_is_named() -> None:
    named = {test for tests in proofs().values() for test in tests}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "pytest.mark.endpoint(" in (text := path.read_text()) and path != ROOT / "tests/unit/test_compatibility.py":
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef):
                    test = f"{path.relative_to(ROOT)}::{node.name}"
                    assert not marks_of(test) or test in named, f"{test} is not in the document; {REWRITE}"


def test_what_is_said_to_be_served_is_in_the_table_of_endpoints_and_the_reverse() -> None:
    served = {endpoint.name: endpoint for endpoint in QUEUE.endpoints}
    # The listed form of an endpoint comes first, that of the top after it.
    served |= {f"{INDEX}{endpoint.name}": endpoint for endpoint in reversed(INDEX_API.endpoints)}
    claimed = {row.served_by for row in ROWS if row.is_supported}
    assert claimed == set(served)
    for row in ROWS:
        endpoint = served.get(row.served_by)
        if endpoint is not None:
            route = f"{endpoint.method} {endpoint.route}".replace("<taskQueueId>", "<provisionerId>/<workerType>")
            assert route == row.route.replace("<taskQueueId>", "<provisionerId>/<workerType>")


def test_every_endpoint_of_the_index_has_a_row_as_the_contract_has_one() -> None:
    assert [row.number for row in INDEX_ROWS] == list(range(1, 15))
    assert {row.service for row in INDEX_ROWS} == {"index"}
    assert {row.service for row in QUEUE_ROWS} == {"queue"}
    table = (ROOT / "docs" / "contract.md").read_text().partition("### 18.2 Endpoints")[2].partition("\n<a id")[0]
    named = {name.strip() for line in re.findall(r"^\| ([^|`]+) \|", table, re.MULTILINE) for name in line.split(",")}
    of_every_service = {"ping", "lbheartbeat", "version", "heartbeat", "health"}
    assert named - {"Endpoint"} == {row.name.removeprefix(INDEX) for row in INDEX_ROWS} - of_every_service


def test_rows_are_numbered_and_the_unsupported_ones_are_known() -> None:
    assert [row.number for row in QUEUE_ROWS] == list(range(1, len(QUEUE_ROWS) + 1))
    assert len(BY_NAME) == len(QUEUE_ROWS) + len(INDEX_ROWS)
    assert [row.name for row in ROWS if not row.is_supported] == [
        "pollTaskUrl",
        "accessTasks",
        "createTask by POST",
        "defineTasks",
        "claimTask without a run",
        "reportTaskCompleted",
        "requestArtifactUrls",
        "getPendingTasks",
        "pendingTaskCount",
        "getAMQPConnectionString",
    ]
    assert all(row.note for row in ROWS if not row.is_supported)
