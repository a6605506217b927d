"""Evaluates SQL filters as the local Service Bus does, which tests/parts/local/test_broker_rules.py holds to Azure's
reference."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tools.local.state import ROOT


@dataclass
class Evaluator:
    """A process that evaluates filters, in which names are the same in any case; None is UNKNOWN."""

    process: subprocess.Popen[str]

    def __call__(self, sql: str, **user: object) -> bool | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(
            json.dumps({"sql": sql, "user": {name.lower(): value for name, value in user.items()}}) + "\n"
        )
        self.process.stdin.flush()
        truth: bool | None = json.loads(self.process.stdout.readline())
        return truth


@contextmanager
def evaluating() -> Iterator[Evaluator]:
    """Yields an evaluator."""
    command = ["node", str(ROOT / "tests" / "parts" / "local" / "evaluate_sql.cjs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Evaluator(process)
