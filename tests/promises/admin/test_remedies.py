"""The commands that `health` names as remedies, run. tests/promises/simulator/test_health.py finds no others."""

from __future__ import annotations

import os

import pytest

from tests.promises.admin.operators import Operator

REMEDIES = (
    "queue show TASK_QUEUE_ID",
    "queue poison redrive claim",
    "worker-client renew TASK_QUEUE_ID",
    "worker-client rotate TASK_QUEUE_ID --key-vault VAULT",
)


@pytest.mark.parametrize("command", REMEDIES)
def test_a_remedy_is_a_command_that_works(command: str, operator: Operator) -> None:
    operator.result("worker-client", "create", operator.pool)
    az = operator.folder / "az"
    az.write_text("#!/bin/sh\n")
    az.chmod(0o755)
    words = command.replace("TASK_QUEUE_ID", operator.pool).split()
    code, _, messages = operator.run(*words, environment={"PATH": f"{operator.folder}:{os.environ['PATH']}"})
    assert code == 0, messages
