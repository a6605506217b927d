"""What the demo shows: the tasks while they go on, and the final table."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from local.demo_tasks import Example, Status

STYLES = {
    "unscheduled": "dim",
    "pending": "yellow",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "exception": "magenta",
}


def tasks_table(examples: Sequence[Example], statuses: Mapping[str, Status], title: str) -> Table:
    """A row per task: its state, its runs with their workers and reasons, and what it shows."""
    table = Table(title=title, title_justify="left")
    for heading in ("Task", "State", "Runs", "Shows"):
        table.add_column(heading)
    for example in examples:
        status = statuses.get(example.name)
        state = status["state"] if status else "–"
        runs = describe_runs(status) if status else ""
        table.add_row(example.name, Text(state, style=STYLES.get(state, "")), runs, example.shows)
    return table


def describe_runs(status: Status) -> str:
    """The runs of a task, in order: `0 claim-expired on worker-1, 1 completed on worker-3`."""
    words = []
    for run in status["runs"]:
        worker = f" on {run['workerId']}" if "workerId" in run else ""
        words.append(f"{run['runId']} {run.get('reasonResolved', run['state'])}{worker}")
    return ", ".join(words)


def final_report(
    examples: Sequence[Example], statuses: Mapping[str, Status], seen: Counter[str], expected: Counter[str]
) -> RenderableType:
    """The tasks as they ended, and the events by exchange."""
    events = Table(title="Events", title_justify="left")
    events.add_column("Exchange")
    events.add_column("Seen", justify="right")
    events.add_column("Expected", justify="right")
    for exchange in sorted(seen.keys() | expected.keys()):
        agrees = seen[exchange] == expected[exchange]
        count = Text(str(seen[exchange]), style="green" if agrees else "red")
        events.add_row(exchange, count, str(expected[exchange]))
    return Group(tasks_table(examples, statuses, "Tasks"), events)
