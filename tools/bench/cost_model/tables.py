"""The tables of docs/scaling.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tools.bench import budgets
from tools.bench.cost_model.bill import Bill
from tools.bench.cost_model.limits import capacity, lateness
from tools.bench.cost_model.model import PROFILES, ROOT, Model

DOCUMENT = ROOT / "docs" / "scaling.md"
MARKS = ("<!-- made by python -m tools.bench.cost_model --write -->", "<!-- end -->")


def report(inputs: Mapping[str, Any]) -> str:
    """Returns the tables, in Markdown."""
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
    columns = [column for model in models.values() for column in (Bill(model).cost(), Bill(model).idle_cost())]
    for line in columns[0]:
        lines.append(f"| {line} | " + " | ".join(_money(column.get(line, 0)) for column in columns) + " |")
    lines.append("| **all** | " + " | ".join(f"**{_money(sum(column.values()))}**" for column in columns) + " |")
    each = [_money(Bill(model).per_million_tasks()) for model in models.values()]
    lines.append(f"| a million tasks more | {each[0]} | | {each[1]} | |")
    return [*lines, ""]


def _capacity(models: Mapping[str, Model]) -> list[str]:
    lines = ["### At the peak", "", "| | small | limit | large | limit |", "|---|---:|---:|---:|---:|"]
    small, large = (capacity(model) for model in models.values())
    for (title, needs, has), (_, more_needs, more_has) in zip(small, large, strict=True):
        cells = (f"{value:,.0f}" if value != math.inf else "–" for value in (needs, has, more_needs, more_has))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _lateness(models: Mapping[str, Model]) -> list[str]:
    lines = ["### Lateness, seconds", ""]
    for name, model in models.items():
        lines += [f"| {name} | usual | worst |", "|---|---:|---:|"]
        lines += [f"| {title} | {usual:,.0f} | {worst:,.0f} |" for title, usual, worst in lateness(model)]
        lines.append("")
    return lines


def _money(dollars: float) -> str:
    return f"{dollars:,.0f}" if dollars >= 10 else f"{dollars:,.2f}"


def document(text: str, tables: str) -> str:
    """Returns docs/scaling.md with these tables."""
    start, end = map(re.escape, MARKS)
    made = f"{MARKS[0]}\n\n{tables}\n\n{MARKS[1]}"
    return re.sub(f"{start}.*?{end}", lambda _: made, text, flags=re.DOTALL)
