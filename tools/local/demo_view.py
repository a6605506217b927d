"""What the demo shows: the tasks while they go on, and the final table."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tools.local.demo_tasks import Example, Status

STYLES = {
    "unscheduled": "dim",
    "pending": "yellow",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "exception": "magenta",
}


WIDE = 140
"""Columns of a terminal that has room for what each task shows."""
_EVENTS_A_LINE = 2


def tasks_table(examples: Sequence[Example], statuses: Mapping[str, Status], title: str, width: int) -> Table:
    """Returns a table with a line per task: state, runs with workers and reasons, and perhaps its purpose."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("Task", no_wrap=True)
    table.add_column("State", no_wrap=True)
    table.add_column("Runs", no_wrap=True, overflow="ellipsis")
    if width >= WIDE:
        table.add_column("Shows", no_wrap=True, overflow="ellipsis")
    for example in examples:
        status = statuses.get(example.name)
        state = status["state"] if status else "–"
        runs = describe_runs(status) if status else ""
        shows = (example.shows,) if width >= WIDE else ()
        table.add_row(example.name, Text(state, style=STYLES.get(state, "")), runs, *shows)
    return table


def workers_in_words(count: int) -> str:
    """Returns the number in words: `no worker`, `1 worker`, `2 workers`."""
    return f"{count or 'no'} {'worker' if count < 2 else 'workers'}"


def describe_runs(status: Status) -> str:
    """Returns the runs of a task in order, such as `0 claim-expired (worker-1), 1 completed (worker-3)`."""
    words = []
    for run in status["runs"]:
        worker = f" ({run['workerId']})" if "workerId" in run else ""
        words.append(f"{run['runId']} {run.get('reasonResolved', run['state'])}{worker}")
    return ", ".join(words)


def final_report(
    examples: Sequence[Example],
    statuses: Mapping[str, Status],
    seen: Counter[str],
    expected: Counter[str],
    width: int,
) -> RenderableType:
    """Returns the tasks as they ended, and the events by exchange: how many were seen and expected."""
    events = Table(title="Events", title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False)
    cells = []
    for exchange in sorted(seen.keys() | expected.keys()):
        agrees = seen[exchange] == expected[exchange]
        count = str(seen[exchange]) if agrees else f"{seen[exchange]} of {expected[exchange]}"
        cells.append(Text.assemble(f"{exchange} ", (count, "green" if agrees else "red")))
    for start in range(0, len(cells), _EVENTS_A_LINE):
        events.add_row(*cells[start : start + _EVENTS_A_LINE])
    return Group(tasks_table(examples, statuses, "Tasks", width), events)
