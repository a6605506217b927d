"""Check that imports point down the order of contexts in pyproject.toml: `python -m tools.local.check_imports`.

With `--figures` it prints instead how many modules shared and functions have, and how many of them the handlers of
createTask and claimWork import in the end.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import grimp
from importlinter.cli import lint_imports

CALLS = {"createTask": "shared.queue.tasks.endpoints", "claimWork": "shared.queue.claims.endpoints"}
"""The calls that are counted, and the modules that their handlers are in."""


def main() -> None:
    """Exits with 1 if an import points up or in a circle, and names it."""
    parser = argparse.ArgumentParser(prog="tools.local.check_imports", description=__doc__)
    parser.add_argument("--figures", action="store_true", help="print figures of the structure, check nothing")
    graph = grimp.build_graph("shared", "functions")
    if parser.parse_args().figures:
        for line in figures(graph):
            print(line)
        return
    circle = circle_of(graph)
    if circle:
        sys.exit(f"these modules import each other in a circle: {' → '.join(circle)}")
    sys.exit(lint_imports(no_cache=True, no_logo=True))


def circle_of(graph: grimp.ImportGraph) -> list[str]:
    """Modules that import each other in a circle, if there are any. Folders of one context may use each other."""
    try:
        TopologicalSorter({each: graph.find_modules_directly_imported_by(each) for each in graph.modules}).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def figures(graph: grimp.ImportGraph) -> Iterator[str]:
    """What is said of the structure, a line each."""
    yield f"modules in shared and functions: {len(_with_code(graph, graph.modules))}"
    for call, module in CALLS.items():
        passed = _with_code(graph, {module, *graph.find_upstream_modules(module)})
        yield f"modules that the handler of {call} imports in the end: {len(passed)}"


def _with_code(graph: grimp.ImportGraph, modules: Iterable[str]) -> list[str]:
    """Modules that are no folders."""
    return [module for module in modules if not graph.find_children(module)]


if __name__ == "__main__":
    main()
