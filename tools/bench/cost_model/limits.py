"""What a load needs of each limit at its peak, and how late work is that a message starts."""

from __future__ import annotations

import math

from tools.bench import budgets
from tools.bench.cost_model.model import EVENTS_A_TASK, Model

TABLE_LIMIT = 20_000
"""The most requests a second of an account."""
QUEUE_LIMIT = 2_000
"""The most requests a second of a queue."""
PARTITION_LIMIT = 2_000
"""The most rows a second of a partition."""
CREDITS_LIMIT = 1_000
"""The most credits a second of a Standard namespace: one for each message and each filter looked at."""


def capacity(model: Model) -> list[tuple[str, float, float]]:
    """Returns for each limit what is needed at the peak, and how much of it there is."""
    rate, task = float(model.load["peak_tasks_a_second"]), model.task(peak=True)
    instances = model.http_instances(peak=True)
    statuses = model.load["peak_status_calls_a_second"] + 2 * model.load["peak_other_calls_a_second"]
    credits = rate * EVENTS_A_TASK * (1 + model.load["rules_a_topic"] + model.load["subscribers_an_event"])
    return [
        ("HTTP instances", instances, model.profile["maximumInstanceCount"]),
        (
            "instances that follow resolutions up",
            model.resolved_instances(peak=True),
            model.profile["maximumInstanceCount"],
        ),
        ("table requests/s, account", rate * budgets.tables(task) + statuses, TABLE_LIMIT),
        ("rows/s, partition of one group that gets all tasks", rate * 7, PARTITION_LIMIT),
        ("rows/s, partition of one pool that gets all tasks", rate * 6, PARTITION_LIMIT),
        (
            "requests/s, busiest queue (one band gets all)",
            rate * 5 + instances / model.assume["idle_poll_seconds"],
            QUEUE_LIMIT,
        ),
        (
            "Service Bus Standard: credits/s",
            credits,
            CREDITS_LIMIT if model.profile["serviceBusSku"] == "Standard" else math.inf,
        ),
    ]


def lateness(model: Model) -> list[tuple[str, float, float]]:
    """Returns how many seconds after its time work is done that a message wakes: usually, and at the worst."""
    poll = float(model.assume["queue_poll_seconds"])
    cold = model.assume["import_cpu_seconds"] / min(model.vcpus, 1)
    look, start = model.assume["scale_look_seconds"], model.assume["instance_start_seconds"]
    usual, worst = (look[kind] + start[kind] + cold + poll for kind in ("usual", "worst"))
    dead = float(model.assume["dead_instance_seconds"])
    stays = {name.partition(":")[2] for name in model.ready}
    rows = [("a retry, seen by a worker that polls", 1.0, poll)]
    for name, function in (
        ("a claim expires", "claim-expired"),
        ("a deadline passes", "deadline-exceeded"),
        ("dependents and the group follow a resolution", "task-resolved"),
    ):
        rows.append((name, poll / 2, poll) if function in stays else (f"{name}, after a scale to zero", usual, worst))
    rows.append(("any of them, if an instance dies with the message", dead, dead + worst))
    rows.append(("what has expired is deleted (every 10 min, hours later on purpose)", 300 + usual, 600 + worst))
    return rows
