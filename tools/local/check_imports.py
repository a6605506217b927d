"""Check that imports point down the order of contexts in pyproject.toml: `python -m tools.local.check_imports`."""

import sys
from graphlib import CycleError, TopologicalSorter

import grimp
from importlinter.cli import lint_imports


def main() -> None:
    """Exits with 1 if an import points up or in a circle, and names it."""
    circle = circle_of(grimp.build_graph("shared", "functions"))
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


if __name__ == "__main__":
    main()
