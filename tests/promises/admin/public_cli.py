"""Implements what the documents use of Taskcluster's own command: `taskcluster api SERVICE METHOD ARGUMENT...` and
`from-now`. The command is a program in Go, which tests would have to download."""

from __future__ import annotations

import json
import sys
from typing import Any

import taskcluster


def main(arguments: list[str]) -> Any:
    """Returns what the command prints."""
    if arguments[0] == "from-now":
        return taskcluster.fromNow(" ".join(arguments[1:])).isoformat()
    _, service, method, *given = arguments
    client: Any = getattr(taskcluster, service.capitalize())(taskcluster.optionsFromEnvironment())
    takes_body = "input" in client.funcinfo[method]
    answer = getattr(client, method)(*given, *([json.load(sys.stdin)] if takes_body else []))
    return json.dumps(answer)


if __name__ == "__main__":
    print(main(sys.argv[1:]))
