"""What the commands on tasks, task groups and task queues share: reading lists, watching, many tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import typer
from taskcluster.exceptions import TaskclusterRestFailure

from tools.admin.output import say
from tools.admin.tables import Progress

Json = Annotated[bool, typer.Option("--json", help="JSON instead of a table, for programs.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK_ID", show_default=False)]
GroupId = Annotated[str, typer.Argument(metavar="TASK_GROUP_ID", show_default=False)]


def gathered(call: Callable[..., Any], *arguments: Any, field: str) -> list[Any]:
    """Returns all items of a list of the API, with progress."""
    with _Gathering(field) as gathering:
        call(*arguments, paginationHandler=lambda page: gathering.add(page))  # noqa: PLW0108 - the client copies methods deeply
    return gathering.found


def gathered_here(queue: Any, path: str, field: str) -> list[Any]:
    """Returns all items of a list of an endpoint that the public client does not know, with progress."""

    with _Gathering(field) as gathering:
        token: str | None = ""
        while token is not None:
            page = request(queue, "GET", path, continuationToken=token or None)
            gathering.add(page)
            token = page.get("continuationToken")
    return gathering.found


class _Gathering:
    """Collects the items of page after page, and shows progress."""

    def __init__(self, field: str) -> None:
        self.found: list[Any] = []
        self._field = field
        self._progress = Progress()

    def __enter__(self) -> _Gathering:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.end()

    def add(self, page: Any) -> None:
        self.found.extend(page[self._field])
        self._progress.at(f"{len(self.found):,} read")


def request(queue: Any, method: str, path: str, body: Any = None, **query: Any) -> Any:
    """Calls an endpoint that the public client does not know, and returns the answer."""
    given = {name: value for name, value in query.items() if value is not None}
    return queue._makeHttpRequest(method, f"{path}?{urlencode(given)}" if given else path, body)


def each(title: str, task_ids: Sequence[str], action: Callable[[str], Any]) -> None:
    """Does something to many tasks, one after the other. Exit code 1 if one of them refused it."""
    refused = 0
    progress = Progress()
    for number, task_id in enumerate(task_ids, 1):
        try:
            action(task_id)
        except TaskclusterRestFailure as failure:
            refused += 1
            progress.end()
            body = failure.body if isinstance(failure.body, dict) else {}
            say(f"{task_id}: {str(body.get('message', failure)).partition(chr(10))[0]}")
        progress.at(f"{title}: {number} of {len(task_ids)}")
    progress.end()
    say(f"{title}: {len(task_ids) - refused} of {len(task_ids)} done")
    if refused:
        raise typer.Exit(1)
