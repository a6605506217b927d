"""`./dev bench` on a stack of its own: everything is measured, nothing fails, and the stack is gone afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.local.stacks import free_ports
from tools.bench import calls_layers
from tools.bench.load.result import Result
from tools.local import state


@pytest.mark.large
@pytest.mark.timeout(1200)
def test_quick_run_measures_every_part_without_a_failure(tmp_path: Path) -> None:
    port = free_ports().api
    command = [sys.executable, "-m", "tools.bench.load", "--quick", "--port", str(port), "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=state.ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = Result.load(tmp_path)
    assert result.failures == []
    parts = {"throughput", "one client", "graphs", "growth", "burst", "idle"}
    assert {row.part for row in result.rows} == parts
    host = f"host-{port}"
    for name in ("createTask", "status", "claimWork + reportCompleted", "fan-in: claim and complete"):
        row = result.row(name)
        assert row is not None
        assert row.count > 0
        assert row.rate
        assert row.requests
        assert row.cpu[host] > 0, "the CPU of the host is seen"
    created, followed = result.row("createTask"), result.row("claimWork + reportCompleted")
    assert created is not None
    assert created.requests is not None
    assert 5 <= created.requests <= 8, "its budget, and a first task of a group among them"
    assert followed is not None
    assert followed.requests is not None
    assert followed.requests > 8, "their budgets, and what is left to messages of resolutions"
    assert result.memory[host] > 20
    assert {curve.name for curve in result.curves} >= {"listTaskGroup, the whole group", "createTask by dependencies"}
    assert (tmp_path / "report.md").exists()
    assert not state.folder(port).exists(), "nothing of the stack is left"


@pytest.mark.large
def test_no_layer_takes_more_of_a_call_than_its_budget() -> None:
    assert calls_layers.grown(calls_layers.look(), json.loads(calls_layers.BUDGETS.read_text())) == []
