"""One profile under one load: how often it is called, and how many instances that keeps busy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench import budgets

ROOT = Path(__file__).resolve().parents[3]
INPUTS = ROOT / "tools" / "bench" / "cost_inputs.json"
PROFILES = ("small", "large")

EVENTS_A_TASK = 4
"""Number of events of an ordinary task: defined, pending, running, resolved."""
MESSAGES_A_TASK = 2
"""Internal messages that a function handles: its deadline, and a claim or the rest of a resolution."""
VCPU_A_GB = 0.5
"""Flex Consumption gives CPU by memory: a quarter to 512 MB, one to 2 GB."""
QUEUE_FUNCTIONS = ("claim-expired", "deadline-exceeded", "task-resolved", "event-pending", "group-job")
TIMER_FUNCTIONS = ("expire", "reconcile", "observe")
"""The timer functions, each of which scales on its own, while all HTTP functions scale together."""
LEAST_READY_IN_ZONES = 2
"""Number of instances of each scale group that Azure keeps ready with zone redundancy, whatever the profile says."""


@dataclass(frozen=True)
class Model:
    """One profile under one load."""

    prices: Mapping[str, Any]
    assume: Mapping[str, Any]
    load: Mapping[str, Any]
    profile: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, inputs: Mapping[str, Any]) -> Model:
        """Returns the profile and the load of that name."""
        profile = json.loads((ROOT / "infra" / "profiles" / f"{name}.json").read_text(encoding="utf-8"))
        return cls(inputs["prices"], inputs["assumptions"], inputs["loads"][name], profile)

    @property
    def gigabytes(self) -> float:
        return float(self.profile["instanceMemoryMB"]) / 1024

    @property
    def vcpus(self) -> float:
        return self.gigabytes * VCPU_A_GB

    @property
    def ready(self) -> Mapping[str, int]:
        """Always-ready instances by scale group."""
        listed = {group["name"]: int(group["instanceCount"]) for group in self.profile["alwaysReady"]}
        if not self.profile["zoneRedundant"]:
            return listed
        groups = ("http", *(f"function:{name}" for name in (*QUEUE_FUNCTIONS, *TIMER_FUNCTIONS)))
        return {name: max(LEAST_READY_IN_ZONES, listed.get(name, 0)) for name in groups}

    def millions(self, a_second: float) -> float:
        """Returns how many millions a month a rate a second makes."""
        return a_second * float(self.assume["seconds_a_month"]) / 1e6

    def task(self, *, peak: bool = False) -> Mapping[str, float]:
        return budgets.life_of_a_task(
            self.load["artifacts_a_task"],
            self.load["artifact_reads_a_task"],
            self.load["relayed_artifacts_a_task"],
            processes=self.http_instances(peak=peak),
        )

    def calls_a_task(self) -> float:
        """Returns the HTTP calls of the life of a task."""
        artifacts, reads = (float(self.load[f"{name}_a_task"]) for name in ("artifacts", "artifact_reads"))
        return 4 + artifacts + float(self.load["relayed_artifacts_a_task"]) + reads

    def relay_cpu(self) -> float:
        """Returns the seconds of CPU for the bytes of a task's artifacts that come by the relay."""
        return float(self.load["relayed_megabytes_a_task"] * self.assume["cpu_ms_a_relayed_megabyte"]) / 1000

    def calls(self, *, peak: bool = False) -> float:
        """Returns the rate of HTTP calls: those of tasks' lives, statuses, and everything else."""
        prefix = "peak_" if peak else ""
        tasks, statuses, others = (
            float(self.load[f"{prefix}{name}_a_second"]) for name in ("tasks", "status_calls", "other_calls")
        )
        return float(tasks * self.calls_a_task() + statuses + others)

    def http_cpu(self, *, peak: bool) -> float:
        """Returns the number of CPUs that HTTP calls keep busy."""
        prefix = "peak_" if peak else ""
        tasks = float(self.load[f"{prefix}tasks_a_second"])
        names = ("createTask", "claimWork", "reclaimTask", "reportCompleted", "resolved message")
        costs = [*(budgets.CALLS[name] for name in names), budgets.SHARED, budgets.FOLLOWED]
        requests = sum(sum(cost.values()) for cost in costs)
        requests += self.load["artifacts_a_task"]
        a_put = sum(budgets.CALLS["relay PUT"].values()) + sum(budgets.SHARED_PUT.values())
        requests += self.load["relayed_artifacts_a_task"] * a_put
        storage = tasks * requests + float(self.load[f"{prefix}status_calls_a_second"])
        storage += 3 * float(self.load[f"{prefix}other_calls_a_second"]) + self.idle_polls(1)
        a_call, a_request = self.assume["cpu_ms_a_call"], self.assume["cpu_ms_a_storage_request"]
        return float(self.calls(peak=peak) * a_call + storage * a_request) / 1000 + tasks * self.relay_cpu()

    def idle_polls(self, instances: int) -> float:
        """Returns the rate of looks into queues by processes whose callers wait in vain: one for each band, pool and
        process."""
        each = self.load["pools_with_waiters"] * self.load["bands_in_use"] / self.assume["idle_poll_seconds"]
        return float(each * instances)

    def http_instances(self, *, peak: bool) -> int:
        """Returns the number of HTTP instances: by CPU, or by the calls that are open at once, most of which are long
        polls."""
        by_cpu = self.http_cpu(peak=peak) / (self.vcpus * self.assume["target_cpu_share"])
        opened = self.calls(peak=peak) * self.assume["call_seconds"] + self.load["waiting_workers"]
        by_calls = opened / (self.profile["httpConcurrency"] * self.assume["target_concurrency_share"])
        return max(1, math.ceil(float(by_cpu)), math.ceil(float(by_calls)))

    def resolved_instances(self, *, peak: bool) -> int:
        """Returns the number of instances of the function that follows resolutions up, if all are left to their
        messages."""
        rate = float(self.load["peak_tasks_a_second" if peak else "tasks_a_second"])
        requests = sum(budgets.CALLS["resolved message"].values())
        cpu = rate * (self.assume["cpu_ms_a_call"] + requests * self.assume["cpu_ms_a_storage_request"]) / 1000
        return max(1, math.ceil(float(cpu / (self.vcpus * self.assume["target_cpu_share"]))))
