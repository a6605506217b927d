"""What a profile costs a month under its load, line by line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shared.overview.gauges import NOTED_EVERY
from tools.bench import budgets
from tools.bench.cost_model.model import (
    EVENTS_A_TASK,
    MESSAGES_A_TASK,
    QUEUE_FUNCTIONS,
    TIMER_FUNCTIONS,
    VCPU_A_GB,
    Model,
)

LOG_ALERTS, METRIC_ALERTS = 12, 1 + 2 * 11
"""Numbers of alerts in infra/modules/alerts.bicep; those by topic count for each topic."""


@dataclass(frozen=True)
class Bill:
    """The bill of a profile under its load, in dollars a month."""

    model: Model

    def storage_cost(self) -> dict[str, float]:
        model = self.model
        sku, task = model.profile["storageSku"], model.task()
        tasks = model.millions(model.load["tasks_a_second"])
        tables = tasks * budgets.tables(task) + model.millions(
            model.load["status_calls_a_second"] + 2 * model.load["other_calls_a_second"]
        )
        gauges = self.gauges()
        tables += gauges["tables"]
        polls = model.idle_polls(model.http_instances(peak=False)) + self._trigger_polls()
        queues = gauges["queues"] + tasks * budgets.queues(task) + model.millions(polls)
        kept = model.load["tasks_a_second"] * 86_400 * model.load["days_kept"]
        blobs = kept * model.load["artifact_megabytes"] / 1024
        price = {name: value[sku] for name, value in model.prices.items() if isinstance(value, dict)}
        return {
            "tables: requests": tables * price["table_per_million"],
            "queues: requests": queues * price["queue_per_million"],
            "blobs: requests": tasks
            * (task["BW"] * price["blob_write_per_million"] + task["BR"] * price["blob_read_per_million"]),
            "tables: data": kept * model.assume["table_kilobytes_a_task"] / 1024 / 1024 * price["table_gb_month"],
            "blobs: data": blobs * price["blob_gb_month"],
        }

    def gauges(self, *, idle: bool = False) -> dict[str, float]:
        """Returns millions of requests for gauges, which are read to note which task queues wait."""
        readings = self.model.millions(1 / NOTED_EVERY.total_seconds())
        pools = 0 if idle else self.model.load["pools_with_waiters"]
        a_reading = budgets.tables(budgets.NOTE) + budgets.tables(budgets.GAUGES)
        return {
            "tables": readings * (a_reading + pools * budgets.tables(budgets.GAUGES_A_POOL)),
            "queues": readings * budgets.queues(budgets.GAUGES),
        }

    def _trigger_polls(self) -> float:
        """Returns how many times a second the Functions host looks into empty queues, by instances that stand ready."""
        model = self.model
        standing = sum(model.ready.get(f"function:{name}", 0) for name in QUEUE_FUNCTIONS)
        return standing / float(model.assume["queue_poll_seconds"])

    def functions_cost(self, *, idle: bool = False) -> dict[str, float]:
        """Returns the cost of execution on demand, of always-ready instances and of the number of executions."""
        model = self.model
        month, price = float(model.assume["seconds_a_month"]), model.prices
        rate = 0.0 if idle else float(model.load["tasks_a_second"])
        timers = model.assume["timer_runs_a_day"] * month / 86_400 * model.assume["timer_run_seconds"]
        timers_stand = f"function:{TIMER_FUNCTIONS[0]}" in model.ready
        demand, ready_busy = (0.0, timers) if timers_stand else (timers, 0.0)
        groups = {
            "http": 0 if idle else model.http_instances(peak=False),
            "function:task-resolved": self._busy(rate * 0.02),
            "function:claim-expired": self._busy(rate * 0.02),
            "function:deadline-exceeded": self._busy(rate * 0.02),
        }
        for name, busy in groups.items():
            standing = min(busy, model.ready.get(name, 0))
            ready_busy += standing * month
            demand += (busy - standing) * month
        standing_all = sum(model.ready.values())
        free = price["functions_free_gb_seconds"] if not model.ready else 0
        executions = 0.0 if idle else model.millions(model.calls())
        free_executions = price["functions_free_executions"] / 1e6 if not model.ready else 0
        return {
            "functions: on demand": max(demand * model.gigabytes - free, 0) * price["functions_gb_second"],
            "functions: always ready": model.gigabytes
            * (
                standing_all * month * price["ready_baseline_gb_second"]
                + ready_busy * price["ready_execution_gb_second"]
            ),
            "functions: executions": max(executions - free_executions, 0) * price["functions_million"],
        }

    def _busy(self, rate: float) -> float:
        """Returns the share of the time in which an instance is billed, at the least time billed per execution."""
        return 1 - math.exp(-rate * float(self.model.assume["least_billed_seconds"]))

    def service_bus_cost(self, *, idle: bool = False) -> dict[str, float]:
        model = self.model
        if model.profile["serviceBusSku"] == "Premium":
            return {"service bus": model.profile["serviceBusCapacity"] * model.prices["servicebus_premium_unit_month"]}
        events = 0.0 if idle else model.millions(model.load["tasks_a_second"] * EVENTS_A_TASK)
        operations = events * (1 + model.load["subscribers_an_event"])
        charged = max(operations - model.prices["servicebus_standard_free_million"], 0)
        return {
            "service bus": model.prices["servicebus_standard_month"]
            + charged * model.prices["servicebus_standard_million"]
        }

    def monitoring_cost(self, *, idle: bool = False) -> dict[str, float]:
        """Returns the cost of logs and metrics: lines of calls and messages that change something, a sample of all
        others with their spans, and metrics once a minute and process; bounded by the cap."""
        model = self.model
        rate = float(model.load["tasks_a_second"])
        processes = model.http_instances(peak=False) + model.resolved_instances(peak=False) * self._busy(rate)
        month = float(model.assume["seconds_a_month"])
        changes = rate * (model.calls_a_task() - model.load["artifact_reads_a_task"] + MESSAGES_A_TASK)
        lines = changes + (model.calls() - changes) * float(model.profile["traceRatio"])
        spans = model.calls() * 6 * float(model.profile["traceRatio"])
        points = processes * model.assume["metric_series"] / 60 * (0.05 if idle else 1)
        kilobytes = points * model.assume["kilobytes_a_metric_point"]
        if not idle:
            kilobytes += lines * model.assume["kilobytes_a_log_item"] + spans * model.assume["kilobytes_a_span"]
        gigabytes = kilobytes * month / 1024 / 1024
        if model.profile["logDailyCapGb"] > 0:
            gigabytes = min(gigabytes, model.profile["logDailyCapGb"] * month / 86_400)
        alerts = LOG_ALERTS * model.prices["log_alert_month"] + METRIC_ALERTS * model.prices["metric_alert_month"]
        return {
            "logs and metrics": max(gigabytes - model.prices["log_free_gb"], 0) * model.prices["log_gb"],
            "alerts": alerts,
        }

    def cost(self) -> dict[str, float]:
        """Returns every line of the bill at the average load."""
        return {
            **self.functions_cost(),
            **self.storage_cost(),
            **self.service_bus_cost(),
            **self.monitoring_cost(),
        }

    def idle_cost(self) -> dict[str, float]:
        """Returns every line of the bill of an idle deployment: no calls, no data kept."""
        model = self.model
        sku = model.profile["storageSku"]
        gauges = self.gauges(idle=True)
        queues = model.millions(self._trigger_polls()) + gauges["queues"]
        return {
            **self.functions_cost(idle=True),
            "tables: requests": gauges["tables"] * model.prices["table_per_million"][sku],
            "queues: requests": queues * model.prices["queue_per_million"][sku],
            **self.service_bus_cost(idle=True),
            **self.monitoring_cost(idle=True),
        }

    def per_million_tasks(self) -> float:
        """Returns what a million more tasks cost on busy instances: requests, calls, CPU, data, events."""
        model = self.model
        sku, task = model.profile["storageSku"], model.task()
        price = {name: value[sku] if isinstance(value, dict) else value for name, value in model.prices.items()}
        calls = model.calls_a_task()
        requests = budgets.tables(task) + budgets.queues(task)
        cpu = (calls * model.assume["cpu_ms_a_call"] + requests * model.assume["cpu_ms_a_storage_request"]) / 1000
        cpu += model.relay_cpu()
        events = 0.0
        if model.profile["serviceBusSku"] == "Standard":
            events = EVENTS_A_TASK * (1 + model.load["subscribers_an_event"]) * price["servicebus_standard_million"]
        megabytes = 1e6 * model.load["artifact_megabytes"] * model.load["days_kept"] / 30
        return float(
            budgets.tables(task) * price["table_per_million"]
            + budgets.queues(task) * price["queue_per_million"]
            + task["BW"] * price["blob_write_per_million"]
            + task["BR"] * price["blob_read_per_million"]
            + megabytes / 1024 * price["blob_gb_month"]
            + calls * price["functions_million"]
            + 1e6 * cpu / VCPU_A_GB / model.assume["target_cpu_share"] * price["functions_gb_second"]
            + events
        )
