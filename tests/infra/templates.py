"""The evaluated templates, for tests: what azd would deploy in each scenario, and the app's settings there."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tools.local.state import ROOT
from tools.local.templates import app_settings, scenarios, syntax
from tools.local.templates.__main__ import evaluate
from tools.local.templates.expressions import File
from tools.local.templates.values import Deployed, Resource

INFRA = ROOT / "infra"
FILES = sorted(INFRA.rglob("*.bicep"))
PROFILES = scenarios.PROFILES
SCENARIOS = scenarios.scenarios()


@functools.cache
def deployed(scenario: str) -> Deployed:
    """What a scenario deploys."""
    return evaluate(SCENARIOS[scenario])


@functools.cache
def file(name: str) -> File:
    """A parsed file, by its path below infra/."""
    return syntax.read(INFRA / name)


def resources(kind: str, scenario: str = "large, closed") -> Iterator[Resource]:
    """The resources of a type that a scenario deploys."""
    return (each for each in deployed(scenario).all_resources() if each.type == kind)


def resource(kind: str, scenario: str = "large, closed") -> Any:
    """The body of the only resource of a type."""
    (found,) = resources(kind, scenario)
    return found.body


def raw_settings(scenario: str) -> dict[str, str]:
    """The app settings as the templates write them, with references into the vault."""
    settings: dict[str, str] = resource("Microsoft.Web/sites/config", scenario)["properties"]
    return settings


def references(scenario: str) -> dict[str, str]:
    """The secret that each setting refers to."""
    found = {name: app_settings.REFERENCE.fullmatch(value) for name, value in raw_settings(scenario).items()}
    return {name: match[1] for name, match in found.items() if match}


def settings(scenario: str) -> dict[str, str]:
    """The app settings as the app sees them."""
    return app_settings.resolved(raw_settings(scenario))


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The app settings, as the app sees them, that a deployment with this environment has."""
    (found,) = (each for each in evaluate(environment).all_resources() if each.type == "Microsoft.Web/sites/config")
    return app_settings.resolved(found.body["properties"])


def sites(environment: Mapping[str, str]) -> dict[str, tuple[Resource, dict[str, str]]]:
    """The apps that a deployment with this environment has, by their services in azure.yaml, each with its settings."""
    found = list(evaluate(environment).all_resources())
    settings = {each.id.rpartition("/config/")[0]: each.body["properties"] for each in found if "config" in each.type}
    return {
        each.body["tags"]["azd-service-name"]: (each, settings[each.id])
        for each in found
        if each.type == "Microsoft.Web/sites"
    }


def document(name: str) -> Any:
    """A JSON file below infra/."""
    return json.loads((INFRA / name).read_text())
