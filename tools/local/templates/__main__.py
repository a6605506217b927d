"""`python -m tools.local.templates`: check the templates without Azure, and say what could not be checked."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.local.state import ROOT
from tools.local.templates import meaning, naming, scenarios, secrecy, syntax
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed, Value

INFRA = ROOT / "infra"
DEPLOYMENTS = {
    f"{profile}-{name}": {**given, "QUEUE_PROFILE": profile}
    for profile in scenarios.PROFILES
    for name, given in (("bare", scenarios.BARE), ("everything", scenarios.EVERYTHING), ("closed", scenarios.CLOSED))
}
"""Environments, by the names of the files that `write` makes for Microsoft's tools."""
NOT_CHECKED = (
    "whether a region offers what is asked for, and whether quotas suffice",
    "whether names are taken by others",
    "whether a value is the one that is meant (tests/promises/infra/deployed.txt)",
    "how long role assignments and settings take to be in force",
    "whether secrets, registry and image of workers are there",
)


def parameters(environment: Mapping[str, str], infra: Path = INFRA) -> dict[str, Value]:
    """Returns the parameters that azd gives the templates. Raises SyntaxFault."""
    types = {each.name: each.target for each in syntax.read(infra / "main.bicep").of("param")}
    return scenarios.parameters(infra / "main.parameters.json", environment, types)


def evaluate(environment: Mapping[str, str], infra: Path = INFRA) -> Deployed:
    """Returns what azd would deploy with an environment. Raises SyntaxFault."""
    return deploy(infra / "main.bicep", parameters(environment, infra))


def findings(deployed: Deployed) -> Iterator[str]:
    """Yields everything that is wrong with one deployment. What cannot be evaluated is examined no further."""
    found = deployed.all_findings()
    yield from map(str, found)
    if not found:
        yield from map(str, meaning.problems(deployed))
        for resource in deployed.all_resources():
            yield from map(str, naming.problems(resource))


def of_files(infra: Path) -> Iterator[str]:
    """Yields what is wrong with the files, whatever is deployed."""
    yield from map(str, secrecy.problems(infra / "main.bicep"))


def check(infra: Path = INFRA, environments: Mapping[str, Mapping[str, str]] | None = None) -> list[str]:
    """Returns everything that is wrong with the templates, each with the first scenario that shows it."""
    found: dict[str, str] = {}
    try:
        for text in of_files(infra):
            found.setdefault(text, "")
        for name, environment in (environments or scenarios.scenarios()).items():
            for text in findings(evaluate(environment, infra)):
                found.setdefault(text, f" ({name})")
    except syntax.SyntaxFault as fault:
        found[str(fault)] = ""
    return [text + where for text, where in found.items()]


def write(folder: Path, infra: Path = INFRA) -> None:
    """Writes a parameter file of Bicep for each of the deployments."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, environment in DEPLOYMENTS.items():
        lines = [f"param {key} = {_written(value)}" for key, value in parameters(environment, infra).items()]
        using = f"using '{os.path.relpath(infra / 'main.bicep', folder)}'"
        (folder / f"{name}.bicepparam").write_text("\n".join([using, *lines, ""]), encoding="utf-8")


def _written(value: Value) -> str:
    """Returns a value in Bicep's syntax."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${") + "'"
    if isinstance(value, dict):
        return "{\n" + "".join(f"  {_written(key)}: {_written(each)}\n" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_written(each)}\n" for each in value) + "]"
    return json.dumps(value)


def main() -> int:
    """Prints findings and what was not checked; returns 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tools.local.templates", description=__doc__)
    parser.add_argument("--unchecked", action="store_true", help="also list each value that only Azure knows")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write files of parameters for Microsoft's tools")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.write)
        return 0
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
