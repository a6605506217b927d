"""Cost, capacity and lateness of a deployment from design 6's budgets: `python -m bench.cost_model [--inputs FILE]`.

Prints the tables of docs/scaling.md; `--write` puts them into it. Prices, assumptions and loads come from
bench/cost_inputs.json or a file like it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import budgets
from shared.domain.history import MINUTES
from shared.storage.interface import MAX_OPERATIONS
from shared.usecases.history import FLUSH_SECONDS

ROOT = Path(__file__).resolve().parent.parent
INPUTS = ROOT / "bench" / "cost_inputs.json"
DOCUMENT = ROOT / "docs" / "scaling.md"
PROFILES = ("small", "large")
MARKS = ("<!-- made by python -m bench.cost_model --write -->", "<!-- end -->")

TABLE_LIMIT = 20_000
"""Requests a second of an account."""
QUEUE_LIMIT = 2_000
"""Requests a second of a queue."""
PARTITION_LIMIT = 2_000
"""Rows a second of a partition."""
CREDITS_LIMIT = 1_000
"""Of a Standard namespace, a second: one for each message sent or received and each filter looked at."""
EVENTS_A_TASK = 4
"""Defined, pending, running, resolved."""
VCPU_A_GB = 0.5
"""Flex Consumption gives CPU by memory: a quarter to 512 MB, one to 2 GB."""
QUEUE_FUNCTIONS = ("claim-expired", "deadline-exceeded", "task-resolved", "event-pending", "group-job")
TIMER_FUNCTIONS = ("expire", "reconcile", "observe")
"""Each scales on its own, all HTTP functions together."""
LEAST_READY_IN_ZONES = 2
"""With zone redundancy Azure keeps so many instances of each scale group ready, whatever the profile says."""
LOG_ALERTS, METRIC_ALERTS = 6, 2
"""Of infra/modules/alerts.bicep."""


@dataclass(frozen=True)
class Model:
    """One profile under one load."""

    prices: Mapping[str, Any]
    assume: Mapping[str, Any]
    load: Mapping[str, Any]
    profile: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, inputs: Mapping[str, Any]) -> Model:
        """The profile and the load of that name."""
        profile = json.loads((ROOT / "infra" / "profiles" / f"{name}.json").read_text())
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
        """A month's number."""
        return a_second * float(self.assume["seconds_a_month"]) / 1e6

    def task(self) -> Mapping[str, float]:
        return budgets.life_of_a_task(self.load["artifacts_a_task"], self.load["artifact_reads_a_task"])

    # Rates, a second

    def calls(self, *, peak: bool = False) -> float:
        """HTTP calls: the life of tasks, statuses, everything else."""
        prefix = "peak_" if peak else ""
        a_task = 4 + self.load["artifacts_a_task"] + self.load["artifact_reads_a_task"]
        tasks, statuses, others = (
            float(self.load[f"{prefix}{name}_a_second"]) for name in ("tasks", "status_calls", "other_calls")
        )
        return float(tasks * a_task + statuses + others)

    def http_cpu(self, *, peak: bool) -> float:
        """CPUs that HTTP calls keep busy."""
        prefix = "peak_" if peak else ""
        tasks = float(self.load[f"{prefix}tasks_a_second"])
        names = ("createTask", "claimWork", "reclaimTask", "reportCompleted")
        requests = sum(sum(budgets.CALLS[name].values()) for name in names) + self.load["artifacts_a_task"]
        storage = tasks * requests + float(self.load[f"{prefix}status_calls_a_second"])
        storage += 3 * float(self.load[f"{prefix}other_calls_a_second"]) + self.idle_polls(1)
        a_call, a_request = self.assume["cpu_ms_a_call"], self.assume["cpu_ms_a_storage_request"]
        return float(self.calls(peak=peak) * a_call + storage * a_request) / 1000

    def idle_polls(self, instances: int) -> float:
        """Gets of processes whose callers wait in vain: a band, a pool and a process at a time."""
        each = self.load["pools_with_waiters"] * self.load["bands_in_use"] / self.assume["idle_poll_seconds"]
        return float(each * instances)

    def http_instances(self, *, peak: bool) -> int:
        """By CPU, or by the calls that are open at once, of which long polls are the most."""
        by_cpu = self.http_cpu(peak=peak) / (self.vcpus * self.assume["target_cpu_share"])
        opened = self.calls(peak=peak) * self.assume["call_seconds"] + self.load["waiting_workers"]
        by_calls = opened / (self.profile["httpConcurrency"] * self.assume["target_concurrency_share"])
        return max(1, math.ceil(float(by_cpu)), math.ceil(float(by_calls)))

    def resolved_instances(self, *, peak: bool) -> int:
        """Of the function that follows resolutions up."""
        rate = float(self.load["peak_tasks_a_second" if peak else "tasks_a_second"])
        requests = sum(budgets.CALLS["resolved message"].values())
        cpu = rate * (self.assume["cpu_ms_a_call"] + requests * self.assume["cpu_ms_a_storage_request"]) / 1000
        return max(1, math.ceil(float(cpu / (self.vcpus * self.assume["target_cpu_share"]))))

    # Money, a month

    def storage_cost(self) -> dict[str, float]:
        sku, task = self.profile["storageSku"], self.task()
        tasks = self.millions(self.load["tasks_a_second"])
        tables = tasks * budgets.tables(task) + self.millions(
            self.load["status_calls_a_second"] + 2 * self.load["other_calls_a_second"]
        )
        history = self.history()
        tables += history["tables"]
        polls = self.idle_polls(self.http_instances(peak=False)) + self._trigger_polls()
        queues = history["queues"] + tasks * budgets.queues(task) + self.millions(polls)
        kept = self.load["tasks_a_second"] * 86_400 * self.load["days_kept"]
        blobs = kept * self.load["artifact_megabytes"] / 1024
        price = {name: value[sku] for name, value in self.prices.items() if isinstance(value, dict)}
        return {
            "tables: requests": tables * price["table_per_million"],
            "queues: requests": queues * price["queue_per_million"],
            "blobs: requests": tasks
            * (task["BW"] * price["blob_write_per_million"] + task["BR"] * price["blob_read_per_million"]),
            "tables: data": kept * self.assume["table_kilobytes_a_task"] / 1024 / 1024 * price["table_gb_month"],
            "blobs: data": blobs * price["blob_gb_month"],
        }

    def history(self, *, idle: bool = False) -> dict[str, float]:
        """Millions of requests for samples, and for the counts that processes write once a minute."""
        samples = self.millions(1 / MINUTES.total_seconds())
        pools = 0 if idle else self.load["pools_with_waiters"]
        counts = 0 if idle else self.http_instances(peak=False) + self.resolved_instances(peak=False)
        removed = counts * MINUTES.total_seconds() / FLUSH_SECONDS / MAX_OPERATIONS
        a_sample = budgets.tables(budgets.SAMPLE) + pools * budgets.tables(budgets.GAUGES_A_POOL) + removed
        return {
            "tables": samples * a_sample + self.millions(counts / FLUSH_SECONDS),
            "queues": samples * budgets.queues(budgets.GAUGES),
        }

    def _trigger_polls(self) -> float:
        """Gets of the Functions host on queues that are empty, of instances that stand ready."""
        standing = sum(self.ready.get(f"function:{name}", 0) for name in QUEUE_FUNCTIONS)
        return standing / float(self.assume["queue_poll_seconds"])

    def functions_cost(self, *, idle: bool = False) -> dict[str, float]:
        """Execution on demand, always-ready instances, numbers of executions."""
        month, price = float(self.assume["seconds_a_month"]), self.prices
        rate = 0.0 if idle else float(self.load["tasks_a_second"])
        timers = self.assume["timer_runs_a_day"] * month / 86_400 * self.assume["timer_run_seconds"]
        timers_stand = f"function:{TIMER_FUNCTIONS[0]}" in self.ready
        demand, ready_busy = (0.0, timers) if timers_stand else (timers, 0.0)
        groups = {
            "http": 0 if idle else self.http_instances(peak=False),
            "function:task-resolved": self._busy(rate) * self.resolved_instances(peak=False),
            "function:claim-expired": self._busy(rate * 0.02),
            "function:deadline-exceeded": self._busy(rate * 0.02),
        }
        for name, busy in groups.items():
            standing = min(busy, self.ready.get(name, 0))
            ready_busy += standing * month
            demand += (busy - standing) * month
        standing_all = sum(self.ready.values())
        free = price["functions_free_gb_seconds"] if not self.ready else 0
        executions = 0.0 if idle else self.millions(self.calls() + rate)
        free_executions = price["functions_free_executions"] / 1e6 if not self.ready else 0
        return {
            "functions: on demand": max(demand * self.gigabytes - free, 0) * price["functions_gb_second"],
            "functions: always ready": self.gigabytes
            * (
                standing_all * month * price["ready_baseline_gb_second"]
                + ready_busy * price["ready_execution_gb_second"]
            ),
            "functions: executions": max(executions - free_executions, 0) * price["functions_million"],
        }

    def _busy(self, rate: float) -> float:
        """Share of the time in which an instance is billed, at a second an execution or more."""
        return 1 - math.exp(-rate * float(self.assume["least_billed_seconds"]))

    def service_bus_cost(self, *, idle: bool = False) -> dict[str, float]:
        if self.profile["serviceBusSku"] == "Premium":
            return {"service bus": self.profile["serviceBusCapacity"] * self.prices["servicebus_premium_unit_month"]}
        events = 0.0 if idle else self.millions(self.load["tasks_a_second"] * EVENTS_A_TASK)
        operations = events * (1 + self.load["subscribers_an_event"])
        charged = max(operations - self.prices["servicebus_standard_free_million"], 0)
        return {
            "service bus": self.prices["servicebus_standard_month"]
            + charged * self.prices["servicebus_standard_million"]
        }

    def monitoring_cost(self, *, idle: bool = False) -> dict[str, float]:
        """Sampled lines of the host and spans of the app, metrics once a minute and process; bounded by the cap."""
        rate = float(self.load["tasks_a_second"])
        processes = self.http_instances(peak=False) + self.resolved_instances(peak=False) * self._busy(rate)
        month = float(self.assume["seconds_a_month"])
        lines = min(self.calls() * 3, processes * self.assume["sampled_items_an_instance_second"])
        spans = self.calls() * 6 * float(self.profile["traceRatio"])
        points = processes * self.assume["metric_series"] / 60 * (0.05 if idle else 1)
        kilobytes = points * self.assume["kilobytes_a_metric_point"]
        if not idle:
            kilobytes += lines * self.assume["kilobytes_a_log_item"] + spans * self.assume["kilobytes_a_span"]
        gigabytes = kilobytes * month / 1024 / 1024
        if self.profile["logDailyCapGb"] > 0:
            gigabytes = min(gigabytes, self.profile["logDailyCapGb"] * month / 86_400)
        alerts = LOG_ALERTS * self.prices["log_alert_month"] + METRIC_ALERTS * self.prices["metric_alert_month"]
        return {
            "logs and metrics": max(gigabytes - self.prices["log_free_gb"], 0) * self.prices["log_gb"],
            "alerts": alerts,
        }

    def cost(self) -> dict[str, float]:
        """Every line of the bill at the average load."""
        return {
            **self.functions_cost(),
            **self.storage_cost(),
            **self.service_bus_cost(),
            **self.monitoring_cost(),
        }

    def idle_cost(self) -> dict[str, float]:
        """The idle cost: no calls, no data kept."""
        sku = self.profile["storageSku"]
        history = self.history(idle=True)
        queues = self.millions(self._trigger_polls()) + history["queues"]
        return {
            **self.functions_cost(idle=True),
            "tables: requests": history["tables"] * self.prices["table_per_million"][sku],
            "queues: requests": queues * self.prices["queue_per_million"][sku],
            **self.service_bus_cost(idle=True),
            **self.monitoring_cost(idle=True),
        }

    def per_million_tasks(self) -> float:
        """What a million tasks more cost where instances are busy anyway: requests, calls, CPU, data, events."""
        sku, task = self.profile["storageSku"], self.task()
        price = {name: value[sku] if isinstance(value, dict) else value for name, value in self.prices.items()}
        calls = 4 + self.load["artifacts_a_task"] + self.load["artifact_reads_a_task"] + 1
        requests = budgets.tables(task) + budgets.queues(task)
        cpu = (calls * self.assume["cpu_ms_a_call"] + requests * self.assume["cpu_ms_a_storage_request"]) / 1000
        events = 0.0
        if self.profile["serviceBusSku"] == "Standard":
            events = EVENTS_A_TASK * (1 + self.load["subscribers_an_event"]) * price["servicebus_standard_million"]
        megabytes = 1e6 * self.load["artifact_megabytes"] * self.load["days_kept"] / 30
        return float(
            budgets.tables(task) * price["table_per_million"]
            + budgets.queues(task) * price["queue_per_million"]
            + task["BW"] * price["blob_write_per_million"]
            + task["BR"] * price["blob_read_per_million"]
            + megabytes / 1024 * price["blob_gb_month"]
            + calls * price["functions_million"]
            + 1e6 * cpu / VCPU_A_GB / self.assume["target_cpu_share"] * price["functions_gb_second"]
            + events
        )

    # Capacity

    def capacity(self) -> list[tuple[str, float, float]]:
        """What is needed at the peak, and how much of it there is."""
        rate, task = float(self.load["peak_tasks_a_second"]), self.task()
        instances = self.http_instances(peak=True)
        statuses = self.load["peak_status_calls_a_second"] + 2 * self.load["peak_other_calls_a_second"]
        credits = rate * EVENTS_A_TASK * (1 + self.load["rules_a_topic"] + self.load["subscribers_an_event"])
        return [
            ("HTTP instances", instances, self.profile["maximumInstanceCount"]),
            (
                "instances that follow resolutions up",
                self.resolved_instances(peak=True),
                self.profile["maximumInstanceCount"],
            ),
            ("table requests/s, account", rate * budgets.tables(task) + statuses, TABLE_LIMIT),
            ("rows/s, partition of one group that gets all tasks", rate * 7, PARTITION_LIMIT),
            ("rows/s, partition of one pool that gets all tasks", rate * 6, PARTITION_LIMIT),
            (
                "requests/s, busiest queue (one band gets all)",
                rate * 5 + instances / self.assume["idle_poll_seconds"],
                QUEUE_LIMIT,
            ),
            (
                "Service Bus Standard: credits/s",
                credits,
                CREDITS_LIMIT if self.profile["serviceBusSku"] == "Standard" else math.inf,
            ),
        ]

    # Lateness, in seconds: usual and worst

    def lateness(self) -> list[tuple[str, float, float]]:
        """How long after its time something that a message wakes is done."""
        poll = float(self.assume["queue_poll_seconds"])
        cold = self.assume["import_cpu_seconds"] / min(self.vcpus, 1)
        look, start = self.assume["scale_look_seconds"], self.assume["instance_start_seconds"]
        usual, worst = (look[kind] + start[kind] + cold + poll for kind in ("usual", "worst"))
        dead = float(self.assume["dead_instance_seconds"])
        stays = {name.partition(":")[2] for name in self.ready}
        rows = [("a retry, seen by a worker that polls", 1.0, poll)]
        for name, function in (
            ("a claim expires", "claim-expired"),
            ("a deadline passes", "deadline-exceeded"),
            ("dependents and the group follow a resolution", "task-resolved"),
        ):
            rows.append(
                (name, poll / 2, poll) if function in stays else (f"{name}, after a scale to zero", usual, worst)
            )
        rows.append(("any of them, if an instance dies with the message", dead, dead + worst))
        rows.append(("what has expired is deleted (every 10 min, hours later on purpose)", 300 + usual, 600 + worst))
        return rows


def report(inputs: Mapping[str, Any]) -> str:
    """The tables, in Markdown."""
    models = {name: Model.of(name, inputs) for name in PROFILES}
    return "\n".join([*_loads(models), *_bill(models), *_capacity(models), *_lateness(models)]).strip()


def _loads(models: Mapping[str, Model]) -> list[str]:
    small, large = models.values()
    lines = ["### A task in storage requests", "", "| | small | large |", "|---|---:|---:|"]
    for title, select in (("tables", budgets.tables), ("queues", budgets.queues)):
        lines.append(f"| {title} | {select(small.task()):.1f} | {select(large.task()):.1f} |")
    for title, kind in (("blob writes", "BW"), ("blob reads", "BR")):
        lines.append(f"| {title} | {small.task()[kind]:.1f} | {large.task()[kind]:.1f} |")
    return [*lines, ""]


def _bill(models: Mapping[str, Model]) -> list[str]:
    lines = ["### Dollars a month", ""]
    lines += [f"* **{name}**: {model.load['title']}" for name, model in models.items()]
    lines += ["", "| | small | small, idle | large | large, idle |", "|---|---:|---:|---:|---:|"]
    columns = [column for model in models.values() for column in (model.cost(), model.idle_cost())]
    for line in columns[0]:
        lines.append(f"| {line} | " + " | ".join(_money(column.get(line, 0)) for column in columns) + " |")
    lines.append("| **all** | " + " | ".join(f"**{_money(sum(column.values()))}**" for column in columns) + " |")
    each = [_money(model.per_million_tasks()) for model in models.values()]
    lines.append(f"| a million tasks more | {each[0]} | | {each[1]} | |")
    return [*lines, ""]


def _capacity(models: Mapping[str, Model]) -> list[str]:
    lines = ["### At the peak", "", "| | small | limit | large | limit |", "|---|---:|---:|---:|---:|"]
    small, large = (model.capacity() for model in models.values())
    for (title, needs, has), (_, more_needs, more_has) in zip(small, large, strict=True):
        cells = (f"{value:,.0f}" if value != math.inf else "–" for value in (needs, has, more_needs, more_has))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _lateness(models: Mapping[str, Model]) -> list[str]:
    lines = ["### Lateness, seconds", ""]
    for name, model in models.items():
        lines += [f"| {name} | usual | worst |", "|---|---:|---:|"]
        lines += [f"| {title} | {usual:,.0f} | {worst:,.0f} |" for title, usual, worst in model.lateness()]
        lines.append("")
    return lines


def _money(dollars: float) -> str:
    return f"{dollars:,.0f}" if dollars >= 10 else f"{dollars:,.2f}"


def document(text: str, tables: str) -> str:
    """docs/scaling.md with these tables."""
    start, end = map(re.escape, MARKS)
    made = f"{MARKS[0]}\n\n{tables}\n\n{MARKS[1]}"
    return re.sub(f"{start}.*?{end}", lambda _: made, text, flags=re.DOTALL)


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost_model", description=__doc__)
    parser.add_argument("--inputs", type=Path, default=INPUTS, help="prices, assumptions and loads")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    arguments = parser.parse_args()
    tables = report(json.loads(arguments.inputs.read_text()))
    if arguments.write:
        DOCUMENT.write_text(document(DOCUMENT.read_text(), tables))
    else:
        print(tables)


if __name__ == "__main__":
    main()
