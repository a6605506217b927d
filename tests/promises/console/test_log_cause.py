"""What is found in logs as real workers write them: the first error, how the command ended, limits, what is missing."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tools.local.state import ROOT

_RUN = """
import { causeIn } from "./console/core/log-cause.js";
let text = "";
for await (const chunk of process.stdin) text += chunk;
console.log(JSON.stringify(JSON.parse(text).map(causeIn)));
"""
TIME = "2026-11-23T10:00:00Z"
OURS = f"[taskcluster {TIME}] "
MAX_RUN_TIME = "[taskcluster:error] task aborted - max run time exceeded"


GENERIC_WORKER = (
    f"[taskcluster {TIME}] Executing command 0: make test",
    "Compiling 12 files, 0 errors so far",
    "src/main.c:12:5: error: expected ';' before '}' token",
    "make: *** [main.o] Error 1",
    f"[taskcluster {TIME}]                        Exit Code: 2",
    f"[taskcluster {TIME}]                           Result: FAILED",
    "[taskcluster:error] exit status 2",
)


CASES: list[tuple[tuple[str, ...], int, dict[str, Any]]] = [
    (GENERIC_WORKER, 2, {"exit": "exit code 2", "limit": "", "missing": []}),
    (
        ("building", f"[taskcluster {TIME}] Command ABORTED after 1h0m0s: process aborted", MAX_RUN_TIME),
        2,
        {"limit": "maxRunTime"},
    ),
    (
        ("building", f"{OURS}Ended by signal 15", f"{OURS}The run ends here: ended after maxRunTime, 60 s."),
        2,
        {"limit": "maxRunTime"},
    ),
    (
        ("x", "[taskcluster:error] Task timeout after 3600 seconds. Force killing container."),
        1,
        {"limit": "maxRunTime"},
    ),
    (
        (
            "error: no such flag",
            f"[taskcluster:warn {TIME}] Memory usage above 90% and available memory less than 500.00 MiB persisted"
            " for over 5s!",
        ),
        1,
        {"limit": "memory"},
    ),
    (("gzip: stdout: No space left on device", f"{OURS}Exit code 1"), 0, {"limit": "disk", "exit": "exit code 1"}),
    (
        (
            "ok",
            "[taskcluster:error] TASK FAILURE during artifact upload: file-missing-on-worker: Could not read file"
            " '/tasks/task_1/public/build.zip'",
        ),
        1,
        {"missing": ["/tasks/task_1/public/build.zip"], "exit": ""},
    ),
    (
        ("ok", f"{OURS}Exit code 0", f"{OURS}Artifact public/build.zip is missing: it does not exist"),
        2,
        {"missing": ["public/build.zip"], "exit": ""},
    ),
    (
        (
            "2026-11-23 10:00:00,000 - script - INFO - begins",
            "Traceback (most recent call last):",
            '  File "x.py", line 1, in <module>',
            "    main()",
            "ValueError: no such thing",
            "exit code: 1",
        ),
        1,
        {"to": 4, "exit": "exit code 1"},
    ),
    (
        (
            f"[task {TIME}] 10:00:00     INFO -  error handling is tested",
            f"[task {TIME}] 10:00:01     INFO - TEST-UNEXPECTED-FAIL | a.js | broke",
            f"[taskcluster {TIME}] Unsuccessful task run with exit code: 1 completed in 12.3 seconds",
        ),
        1,
        {"exit": "exit code 1"},
    ),
    (("\x1b[31mFAILED\x1b[0m tests/test_a.py::test_a", "1 failed"), 0, {"sure": True}),
    (("step", f"{OURS}Ended by signal 9"), 1, {"exit": "signal 9"}),
    (("Automation Error: python exited with signal -15",), 0, {"exit": "signal 15"}),
    (("all is well, 0 failed, no errors", "done"), -1, {"exit": "", "sure": False}),
    (("perhaps this failed",), 0, {"sure": False}),
    (("\x00\x01\x02" * 100, "x" * 3_000_000, "y" * 100_000 + " error: too far to be seen"), -1, {}),
]
"""The lines of a log, at which of them its cause is, and what else is found."""


@pytest.fixture(scope="module")
def causes() -> list[dict[str, Any]]:
    """Returns what the console finds in each log. One process reads all, as its start costs more than they do."""
    found = subprocess.run(
        ["node", "--input-type=module", "-e", _RUN],
        cwd=ROOT,
        input=json.dumps([lines for lines, _, _ in CASES]),
        capture_output=True,
        text=True,
        check=True,
    )
    all_causes: list[dict[str, Any]] = json.loads(found.stdout)
    return all_causes


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_a_log_says_of_its_end(case: int, causes: list[dict[str, Any]]) -> None:
    _, at, found = CASES[case]
    assert {key: causes[case][key] for key in ("at", *found)} == {"at": at, **found}
