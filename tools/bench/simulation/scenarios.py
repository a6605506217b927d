"""What is simulated for docs/scaling.md, and the tables that come out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from tools.bench.cost_model.model import INPUTS, PROFILES, ROOT, Model
from tools.bench.simulation.calls import CALLS
from tools.bench.simulation.charts import Line, chart
from tools.bench.simulation.deployment import Deployment, Load

FACTORS = (1, 2, 4, 5, 6, 8)
"""Multiples of the peak of the large profile's load."""
SPREAD, SINGLE = 200, 1
"""How many groups and pools share the tasks."""
DEATHS, CUT = (30.0, 40.0, 50.0, 60.0), (10.0, 20.0, 2_000.0)
"""Times at which instances die; beginning and end of the time in which the account is cut down, and the requests a
second that it then takes."""


def fingerprint() -> str:
    """Returns a hash of everything that the numbers follow from, except for the simulation itself."""
    texts = [
        INPUTS.read_text(encoding="utf-8"),
        *((ROOT / "infra" / "profiles" / f"{name}.json").read_text(encoding="utf-8") for name in PROFILES),
    ]
    return hashlib.sha256("\n".join([*texts, repr(CALLS)]).encode()).hexdigest()[:12]


def _model(name: str) -> Model:
    return Model.of(name, json.loads(INPUTS.read_text(encoding="utf-8")))


def knee(groups: int, factors: Sequence[float] = FACTORS) -> dict[float, Deployment]:
    """Simulates settled deployments of the large profile at multiples of its peak."""
    model = _model("large")
    loads = {factor: Load(factor, seconds=12, warm=6, groups=groups, settled=True) for factor in factors}
    return {factor: Deployment(model, load).run() for factor, load in loads.items()}


def step() -> Deployment:
    """Simulates twice the peak that comes at once to the instances that stand ready."""
    return Deployment(_model("large"), Load(2, seconds=40, warm=0)).run()


def cut() -> Deployment:
    """Simulates an account that is throttled for ten seconds at the peak."""
    return Deployment(_model("large"), Load(seconds=40, warm=0, settled=True, throttled=CUT)).run()


def deaths() -> Deployment:
    """Simulates that four times an instance of each queue function dies with its messages, without calls of the API."""
    return Deployment(_model("large"), Load(seconds=700, warm=0, calls=False, kill_at=DEATHS)).run()


def cold() -> Deployment:
    """Simulates the small profile at its peak, beginning without instances."""
    return Deployment(_model("small"), Load(seconds=60, warm=0, cold=True)).run()


def tables() -> tuple[str, Mapping[str, str]]:
    """Returns the tables in Markdown, and the charts by their files' names."""
    spread, single = knee(SPREAD), knee(SINGLE)
    stepped, throttled = step(), cut()
    lines = ["### Multiples of the peak, settled", ""]
    lines += _knee("Tasks of 200 groups and pools", spread) + _knee("All tasks in one group, pool and band", single)
    lines += [
        "### What goes wrong",
        "",
        *_seconds({"twice the peak at once": stepped, "account cut to 2,000/s": throttled}),
    ]
    lines += _events(
        {"instances of each queue function die, four times (large)": deaths(), "from zero (small)": cold()}
    )
    charts = {
        "simulation-knee.svg": chart(
            "99th percentile of an API call",
            "times the peak",
            "s",
            [
                Line(name, [(factor, run.percentile("call", 0.99)) for factor, run in runs.items()])
                for name, runs in (("200 groups", spread), ("one group", single))
            ],
        ),
        "simulation-trouble.svg": chart(
            "99th percentile of an API call, by second",
            "second",
            "s",
            [
                Line(name, _by_second(run))
                for name, run in (("twice the peak at once", stepped), ("account cut to 2,000/s", throttled))
            ],
        ),
    }
    lines += [f"Of the inputs {fingerprint()}."]
    return "\n".join(lines).strip(), charts


def _by_second(run: Deployment) -> list[tuple[float, float]]:
    return [(second, run.percentile("call", 0.99, second, second + 1)) for second in range(int(run.load.seconds))]


def _knee(title: str, runs: Mapping[float, Deployment]) -> list[str]:
    rows = [
        f"| {title} | call, p50 / p99 | created to started, p50 / p99 | follow-up, p50 / p99 | timers, p99 "
        "| requests/s | refused | failed calls | HTTP instances | $/h |",
        "|---" + "|---:" * 9 + "|",
    ]
    for factor, run in runs.items():
        sent = run.account.sent.total()
        cells = [
            *(_pair(run, name) for name in ("call", "start", "follow-up")),
            f"{run.percentile('timer', 0.99):.2f}",
            f"{sent / run.load.seconds:,.0f}",
            f"{100 * run.account.refused.total() / sent:.1f} %{_where(run)}",
            f"{run.counts['failed calls']:,}",
            f"{run.front.peak}",
            f"{sum(run.dollars_an_hour().values()):.0f}",
        ]
        rows.append(f"| {factor:g}× | " + " | ".join(cells) + " |")
    return [*rows, ""]


def _where(run: Deployment) -> str:
    refused = run.account.refused.most_common(1)
    return f" ({refused[0][0]})" if refused else ""


def _pair(run: Deployment, name: str, since: float = 0, until: float = 1e9) -> str:
    return " / ".join(f"{run.percentile(name, share, since, until):.2f}" for share in (0.5, 0.99))


def _seconds(runs: Mapping[str, Deployment]) -> list[str]:
    parts = (0, 10, 20, 30)
    rows = [
        "| call, p50 / p99 | " + " | ".join(f"{at}–{at + 10} s" for at in parts) + " | failed calls | HTTP instances |"
    ]
    rows.append("|---" + "|---:" * (len(parts) + 2) + "|")
    for name, run in runs.items():
        cells = [_pair(run, "call", at, at + 10) for at in parts]
        rows.append(
            f"| {name} | "
            + " | ".join(cells)
            + f" | {run.counts['failed calls']:,} of {run.counts['calls']:,} | {run.front.peak} |"
        )
    return [*rows, ""]


def _events(runs: Mapping[str, Deployment]) -> list[str]:
    rows = [
        "| lateness, p50 / p99 / most | follow-up | timers | API call | messages handled |",
        "|---" + "|---:" * 4 + "|",
    ]
    for name, run in runs.items():
        cells = [
            " / ".join(f"{run.percentile(kind, share):.2f}" for share in (0.5, 0.99, 1)) if run.samples[kind] else "–"
            for kind in ("follow-up", "timer", "call")
        ]
        handled = sum(run.counts[f"handled {queue}"] for queue in run.listeners)
        rows.append(f"| {name} | " + " | ".join(cells) + f" | {handled:,} |")
    return [*rows, ""]
