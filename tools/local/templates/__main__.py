"""`python -m tools.local.templates`: check the templates without Azure, and say what could not be checked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.local.state import ROOT
from tools.local.templates import (
    alert_rules,
    app_settings,
    container_jobs,
    conventions,
    flex,
    limits,
    meaning,
    names,
    naming,
    scenarios,
    secrecy,
    syntax,
    wiring,
)
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed, Finding

INFRA = ROOT / "infra"


def evaluate(environment: Mapping[str, str], infra: Path = INFRA) -> Deployed:
    """What azd would deploy with an environment. Raises SyntaxFault."""
    main = infra / "main.bicep"
    types = {each.name: each.target for each in syntax.read(main).of("param")}
    return deploy(main, scenarios.parameters(infra / "main.parameters.json", environment, types))


def findings(deployed: Deployed) -> Iterator[Finding]:
    """Everything that is wrong with one deployment."""
    yield from deployed.all_findings()
    yield from flex.problems(deployed)
    yield from app_settings.problems(deployed)
    yield from wiring.problems(deployed)
    yield from limits.problems(deployed)
    yield from alert_rules.problems(deployed)
    yield from conventions.problems(deployed)
    yield from meaning.problems(deployed)
    resources = list(deployed.all_resources())
    malformed = {each.place for each in deployed.all_findings()}
    for resource in resources:
        yield from naming.problems(resource)
        if resource.type == container_jobs.JOB and resource.place not in malformed:
            yield from container_jobs.problems(resource, resources)


def problems(infra: Path, environments: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """What is wrong with the templates, as it is found, and in which scenario, if in one: once for each of them."""
    try:
        for look in (names.problems, secrecy.problems):
            for problem in look(infra / "main.bicep"):
                yield str(problem), ""
        for name, environment in environments.items():
            for finding in findings(evaluate(environment, infra)):
                yield str(finding), f" ({name})"
    except syntax.SyntaxFault as fault:
        yield str(fault), ""


def check(infra: Path = INFRA, environments: Mapping[str, Mapping[str, str]] | None = None) -> list[str]:
    """Everything that is wrong with the templates, each with the first scenario that shows it (default: all)."""
    found: dict[str, str] = {}
    for text, where in problems(infra, environments or {**scenarios.scenarios(), **scenarios.with_uploads()}):
        found.setdefault(text, where)
    return [text + where for text, where in found.items()]


NOT_CHECKED = (
    "whether a region offers what is asked for, and whether quotas suffice",
    "whether names are taken by others",
    "whether role ids are those of the roles that are meant (tests/infra has its own list), and suffice",
    "queries of alerts and of the workbook, beyond names of metrics and functions",
    "how long role assignments and settings take to be in force",
    "whether secrets, registry and image of workers are there",
)


def main() -> int:
    """Print findings and what was not checked; 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tools.local.templates", description=__doc__)
    parser.add_argument("--unchecked", action="store_true", help="also list each value that only Azure knows")
    arguments = parser.parse_args()
    found = check()
    for each in found:
        print(each)
    unknown = sorted(
        {line for environment in scenarios.scenarios().values() for line in meaning.unknowns(evaluate(environment))}
    )
    print(f"{len(found)} findings. Not checked: {'; '.join(NOT_CHECKED)}; {len(unknown)} values that only Azure knows.")
    if arguments.unchecked:
        print("\n".join(unknown))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
