"""What calls cost in storage requests, from the lines that the local hosts log for each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_DONE = '"action": "call_done"'


@dataclass
class Cost:
    """The cost of all calls, or handled messages, of one name."""

    calls: int = 0
    requests: int = 0

    @property
    def each(self) -> float:
        """Storage requests of one call or message."""
        return self.requests / self.calls if self.calls else 0.0


class HostLogs:
    """Reads the logs of hosts, each time from where it has read to."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._at = dict.fromkeys(paths, 0)

    def read(self) -> dict[str, Cost]:
        """Returns the costs by call since the last time."""
        costs: dict[str, Cost] = defaultdict(Cost)
        for path in self._at:
            with path.open("rb") as file:
                file.seek(self._at[path])
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    self._at[path] += len(line)
                    _count(line.decode(errors="replace"), costs)
        return dict(costs)


def _count(line: str, costs: dict[str, Cost]) -> None:
    if not line.startswith("{"):
        return
    message = str(json.loads(line).get("message", ""))
    if _DONE not in message:
        return
    fields = json.loads(message[message.index("{") :])
    cost = costs[fields["call"]]
    cost.calls += 1
    cost.requests += fields["storageOperations"]
