"""Two runs side by side: ratios, since absolute times of two machines, or of a busy one, mean little."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.bench.load.report import number
from tools.bench.load.result import Result, Row


def _hosts(row: Row) -> float | None:
    """Returns the CPU of all hosts together."""
    hosts = [spent for name, spent in row.cpu.items() if name.startswith("host")]
    return sum(hosts) if hosts else None


_FIGURES: Mapping[str, Callable[[Row], float | None]] = {
    "a second": lambda row: row.rate,
    "p50 ms": lambda row: row.p50,
    "p99 ms": lambda row: row.p99,
    "storage requests": lambda row: row.requests,
    "CPU ms of the hosts": _hosts,
}


def compare(before: Result, after: Result) -> str:
    """Returns a table of what both runs have measured: before, after, and the ratio."""
    lines = [
        f"Before: commit {before.commit}, {before.started}, sizes `{before.preset}`; "
        f"after: commit {after.commit}, {after.started}, sizes `{after.preset}`.",
        "",
        "| | | before | after | after / before |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for row in after.rows:
        other = next((each for each in before.rows if (each.part, each.name) == (row.part, row.name)), None)
        if other is None:
            continue
        for name, figure in _FIGURES.items():
            old, new = figure(other), figure(row)
            if old and new:
                lines.append(f"| {row.name} | {name} | {number(old)} | {number(new)} | {new / old:.2f} |")
    old_curves = {curve.name: dict(curve.points) for curve in before.curves}
    for curve in after.curves:
        for size, new in curve.points:
            old = old_curves.get(curve.name, {}).get(size)
            if old:
                name = f"{curve.name}, {size:,.0f} {curve.across}"
                lines.append(f"| {name} | {curve.unit} | {number(old)} | {number(new)} | {new / old:.2f} |")
    return "\n".join(lines) + "\n"
