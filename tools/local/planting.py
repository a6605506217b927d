"""`./dev mutate`: plants bugs of tests/parts/mutation/planted.json and says which of them the tests catch."""

import json
import subprocess
import sys
from collections.abc import Sequence

from tools.local.checks import PROCESSES, clean_environment
from tools.local.state import ROOT

KEPT = ROOT / "tests/parts/mutation/planted.json"
TESTS = ("tests/parts/unit", "tests/parts/properties", "tests/promises/simulator", "tests/promises/telemetry")
"""Tests that catch all bugs that are kept; hardly one needs a server."""
ENGINES = (
    "tests/promises/simulator/test_ages.py",
    "tests/promises/simulator/test_conditions.py",
    "tests/promises/simulator/test_leftovers.py",
    "tests/promises/simulator/test_crashes.py",
    "tests/promises/simulator/test_artifact_crashes.py",
    "tests/promises/simulator/test_pairs.py",
    "tests/promises/simulator/test_late_requests.py",
    "tests/promises/simulator/test_lost_answers.py",
    "tests/promises/simulator/test_interleavings.py",
    "tests/promises/simulator/test_faults.py",
    "tests/promises/simulator/test_soak.py",
    "tests/parts/properties/test_state_machine.py",
)
"""The tests that go through all cases of a kind by themselves, instead of telling one story each."""
ENGINES_HOLD = "order age condition"  # kinds of bugs; figures and ranges have stories of their own
NOT_CAUGHT = 1
UNKNOWN = 2


def named(words: str) -> list[dict[str, str]]:
    """Returns the kept bugs whose names contain these words."""
    return [bug for bug in json.loads(KEPT.read_text(encoding="utf-8")) if words in bug["name"]]


def main(words: str | None, *, every: bool, engines: bool, tests: Sequence[str]) -> int:
    """Plants the bug of that name, or with `every` all of these; the exit code is 0 if all are caught."""
    bugs = [bug for bug in named(words or "") if not engines or bug["kind"] in ENGINES_HOLD.split()]
    if words is None and not every and not engines:
        for bug in bugs:
            print(f"{bug['kind']}: {bug['name']} ({bug['file']})")
        return 0
    if not bugs or (len(bugs) > 1 and not every and not engines):
        print(f"{len(bugs)} bugs have {words!r} in their names: ./dev mutate lists all", file=sys.stderr)
        return UNKNOWN
    where = tests or (ENGINES if engines else TESTS)
    if every or engines:
        return _pytest("--planted", words or "", "--kinds", ENGINES_HOLD if engines else "", "-n", "0", *where)
    processes = 0 if tests else PROCESSES
    caught = _pytest("--plant", bugs[0]["name"], "-x", "-n", str(processes), "--dist", "loadgroup", *where) != 0
    print(f"{bugs[0]['name']}: {'caught' if caught else 'not caught'}")
    return 0 if caught else NOT_CAUGHT


def _pytest(*arguments: str) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not large",
        "-p",
        "tests.parts.mutation.planted",
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, env=clean_environment(), check=False).returncode
