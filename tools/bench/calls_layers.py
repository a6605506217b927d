"""What each call takes of each layer, in calls of functions: `python -m tools.bench.calls_layers [--write]`.

The functions are called in process, under a profiler. Calls of functions hardly depend on the machine, and follow what
a layer costs; so they are what is kept in call_layers.json, and what a layer that grows is seen by.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from shared.queue.events.exchanges import TOPICS
from tools.bench.calls_cpu import WARM_UP, Checkout
from tools.local import settings_docs, state
from tools.local.azurite import Azurite
from tools.local.service_bus import ServiceBus

BUDGETS = Path(__file__).with_name("call_layers.json")
COUNT = 100
SMALL = 20
"""Number of calls of functions in a layer that is too small to be kept."""
ROOM = 1.25
"""By how much a layer may exceed its budget: resolutions are followed up in the background, sooner or later."""

Layers = Mapping[str, Mapping[str, tuple[float, float]]]


def look(count: int = COUNT) -> Layers:
    """Returns for each call and layer the calls of functions, and the microseconds under a profiler."""
    with Azurite.start(in_memory=True) as azurite, ServiceBus.start(list(TOPICS)) as broker:
        environment = {
            **settings_docs.EXAMPLE_VALUES,
            "STORAGE_CONNECTION_STRING": azurite.connection_string,
            "SERVICEBUS_CONNECTION_STRING": broker.connection_string,
        }
        with Checkout(state.ROOT, environment) as checkout:
            for name, calls in WARM_UP.items():
                checkout.measure(name, calls)
            found: Layers = checkout.ask("layers", count)
            return found


def grown(found: Layers, budgets: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns a line for each layer that exceeds its budget, or has none."""
    problems = []
    for call, layers in found.items():
        for layer, (count, _) in layers.items():
            budget = budgets.get(call, {}).get(layer, SMALL)
            if count > max(budget * ROOM, budget + SMALL):
                problems.append(f"{call}: {layer} takes {count:.0f} calls of functions, and may take {budget:.0f}")
    return problems


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="take what is found as the budget")
    given = parser.parse_args()
    found = look()
    budgets = {
        call: {layer: round(count) for layer, (count, _) in sorted(layers.items()) if count >= SMALL}
        for call, layers in found.items()
    }
    for call, layers in found.items():
        total = sum(count for count, _ in layers.values())
        print(f"{call}: {total:.0f} calls of functions")
        for layer, (count, spent) in sorted(layers.items(), key=lambda each: -each[1][0]):
            if count >= SMALL:
                print(f"  {layer:24} {count:7.0f} {spent:8.0f} µs")
    if given.write:
        BUDGETS.write_text(json.dumps(budgets, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    else:
        print(*grown(found, json.loads(BUDGETS.read_text(encoding="utf-8"))), sep="\n")


if __name__ == "__main__":
    main()
