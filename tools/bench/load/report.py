"""A run as tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.bench.load.result import Curve, Result, Row

PARTS: Mapping[str, str] = {
    "throughput": "Calls, {clients} clients at a time",
    "one client": "Calls, one client alone",
    "graphs": "Graphs: a number of tasks in each shape",
    "growth": "Listing a group as it grows",
    "burst": "A burst of one client, beside others",
    "idle": "Idle workers",
}


def markdown(result: Result) -> str:
    """Returns all tables."""
    parts = [_about(result)]
    for part, title in PARTS.items():
        rows = [row for row in result.rows if row.part == part]
        if rows:
            parts += [f"### {title.format(clients=result.clients)}", _table(rows)]
    for curve in result.curves:
        parts += [f"### {curve.name}", _points(curve)]
    if result.memory:
        memory = "; ".join(f"{name} {megabytes:,.0f} MB" for name, megabytes in result.memory.items())
        parts.append(f"Memory at the end: {memory}.")
    if result.failures:
        parts.append("Calls that failed, the first ones:\n\n" + "\n".join(f"* `{each}`" for each in result.failures))
    return "\n\n".join(parts) + "\n"


def write(result: Result, folder: Path) -> Path:
    """Writes everything into one folder; returns the path of the tables."""
    result.save(folder)
    tables = folder / "report.md"
    tables.write_text(f"# ./dev bench\n\n{markdown(result)}", encoding="utf-8")
    return tables


def _about(result: Result) -> str:
    others = [float(each) for each in result.machine.get("cores used by others", ())]
    busy = f"; other programs used {min(others):.1f} to {max(others):.1f} cores meanwhile" if others else ""
    cores = result.machine.get("cores")
    machine = f"{result.machine.get('processor', 'unknown')}, {cores} cores" if cores else "a machine elsewhere"
    if python := result.machine.get("python"):
        machine += f", Python {python}"
    return (
        f"Measured {result.started} at commit {result.commit} against {result.target}, sizes `{result.preset}`, by "
        f"{result.clients} client processes; {machine}{busy}."
    )


def _table(rows: list[Row]) -> str:
    processes = list(dict.fromkeys(name for row in rows for name in row.cpu))
    head = ["", "a second", "p50 ms", "p99 ms", "storage requests", *(f"CPU ms: {name}" for name in processes)]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for row in rows:
        figures = [row.rate, row.p50, row.p99, row.requests, *(row.cpu.get(name) for name in processes)]
        notes = {"failed": row.failures, "refused and sent again": row.sent_again}
        noted = ", ".join(f"{count} {what}" for what, count in notes.items() if count)
        lines.append(_line([f"{row.name} ({noted})" if noted else row.name, *map(number, figures)]))
    return "\n".join(lines)


def _points(curve: Curve) -> str:
    sizes = [f"{x:,.0f}" for x, _ in curve.points]
    return "\n".join(
        [
            _line([curve.across, *sizes]),
            _line(["---", *["---:"] * len(sizes)]),
            _line([curve.unit, *(number(y) for _, y in curve.points)]),
        ]
    )


def number(value: float | None) -> str:
    """Formats a number with about three digits; a dash for what was not measured."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
