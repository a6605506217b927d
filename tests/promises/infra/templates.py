"""The evaluated templates, for tests: what azd would deploy in each scenario, and what is wrong with it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.promises.infra import expected
from tools.local.state import ROOT
from tools.local.templates import scenarios, syntax
from tools.local.templates.__main__ import evaluate, findings, of_files, parameters
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed, Resource, answer

INFRA = ROOT / "infra"
FILES = sorted(INFRA.rglob("*.bicep"))
PROFILES = scenarios.PROFILES
SCENARIOS = scenarios.scenarios()


@functools.cache
def deployed(scenario: str) -> Deployed:
    """Returns what a scenario deploys."""
    return evaluate(SCENARIOS[scenario])


def wrong(infra: Path, scenario: str) -> Iterator[str]:
    """Yields what Azure would refuse in what a scenario deploys, and what is not as deployed.txt says."""
    given = parameters(SCENARIOS[scenario], infra)
    found = deploy(infra / "main.bicep", given)
    yield from findings(found)
    if not found.all_findings():
        yield from expected.differences(found, given, infra)


def problems(infra: Path) -> Iterator[str]:
    """Yields what is wrong with a copy of infra/; the scenarios with most in them come first."""
    try:
        yield from of_files(infra)
        for scenario in sorted(SCENARIOS, key=lambda name: ("closed" not in name, "person" not in name)):
            yield from wrong(infra, scenario)
    except syntax.SyntaxFault as fault:
        yield str(fault)


def resources(kind: str, scenario: str = "large, closed") -> Iterator[Resource]:
    """Yields the resources of a type that a scenario deploys."""
    return (each for each in deployed(scenario).all_resources() if each.type == kind)


def resource(kind: str, scenario: str = "large, closed") -> Any:
    """Returns the body of the only resource of a type."""
    (found,) = resources(kind, scenario)
    return found.body


def settings(scenario: str) -> dict[str, str]:
    """Returns the app settings as the app sees them."""
    return expected.resolved(resource("Microsoft.Web/sites/config", scenario)["properties"])


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the app settings, as the app sees them, that a deployment with this environment has."""
    (found,) = (each for each in evaluate(environment).all_resources() if each.type == "Microsoft.Web/sites/config")
    return expected.resolved(found.body["properties"])


def sites(environment: Mapping[str, str]) -> dict[str, tuple[Resource, dict[str, str]]]:
    """Returns the apps of a deployment with this environment, by their services in azure.yaml, with their settings."""
    found = list(evaluate(environment).all_resources())
    settings = {each.id.rpartition("/config/")[0]: each.body["properties"] for each in found if "config" in each.type}
    return {
        each.body["tags"]["azd-service-name"]: (each, settings[each.id])
        for each in found
        if each.type == "Microsoft.Web/sites"
    }


def document(name: str) -> Any:
    """Returns a JSON file below infra/."""
    return json.loads((INFRA / name).read_text())


def principal(identity: str) -> str:
    """Returns the principal that Azure would make for an identity of this name."""
    return answer("Microsoft.ManagedIdentity/userAssignedIdentities", identity, "properties.principalId") or ""
