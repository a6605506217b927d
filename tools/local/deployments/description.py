"""The description of a deployment: infra/deployments/<environment>.json, a parameter file of Azure.

Standard library only: hooks run this before anything is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
INFRA = ROOT / "infra"
FOLDER = INFRA / "deployments"
_MAIN = INFRA / "main.bicep"
_GIVEN = INFRA / "main.parameters.json"
_SCHEMA = "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentParameters.json#"
_TYPES: dict[str, type] = {"string": str, "int": int, "bool": bool, "object": dict, "array": list}
NOT_DESCRIBED = {
    "environmentName",
    "principalId",
    "principalType",
    "appVersion",
    "rootAccessToken",
    "messageSigningKeys",
    "accessTokenKeys",
}
"""Parameters that no description gives: the file's name, who deploys which build, and secrets."""

Parameters = dict[str, Any]


class Refused(Exception):
    """A deployment is refused; the message says why, and what to do."""


def types() -> dict[str, str]:
    """Returns the type of each parameter of main.bicep."""
    return dict(re.findall(r"^param (\w+) (\w+)", _MAIN.read_text(encoding="utf-8"), re.MULTILINE))


def variables() -> dict[str, str]:
    """Returns for each parameter the variable of azd's environment that main.parameters.json takes it from."""
    given = json.loads(_GIVEN.read_text(encoding="utf-8"))["parameters"]
    found = {name: re.match(r"\$\{(\w+)", entry["value"]) for name, entry in given.items()}
    return {name: match[1] for name, match in found.items() if match}


def described() -> dict[str, str]:
    """Returns the variable of each parameter that a description may give."""
    return {name: variable for name, variable in variables().items() if name not in NOT_DESCRIBED}


def path(environment: str, folder: Path = FOLDER) -> Path:
    """Returns the path of an environment's description."""
    return folder / f"{environment}.json"


def read(file: Path) -> Parameters:
    """Reads the parameters that a description gives. Raises Refused for a parameter or value that no template takes."""
    if not file.exists():
        raise Refused(f"there is no {file}: the first azd provision writes it, or ./dev deployment pull")
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["parameters"]
        parameters = {name: entry["value"] for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{file} is no parameter file: {error!r}") from error
    known = types()
    for name, value in parameters.items():
        if name in NOT_DESCRIBED or name not in described():
            raise Refused(
                f"{file}: {name} is no parameter that a description gives; there are {', '.join(described())}"
            )
        wanted = _TYPES[known[name]]
        if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
            raise Refused(f"{file}: {name} has to be {known[name]}, not {json.dumps(value)}")
        if isinstance(value, str) and re.search(r'["\\$\n]', value):
            raise Refused(f'{file}: {name} holds one of " \\ $ or a line break, which azd cannot pass on')
    return parameters


def text(parameters: Parameters) -> str:
    """Returns the content of the file."""
    entries = {name: {"value": value} for name, value in parameters.items()}
    return json.dumps({"$schema": _SCHEMA, "contentVersion": "1.0.0.0", "parameters": entries}, indent=2) + "\n"


def of_variables(environment: Mapping[str, str]) -> Parameters:
    """Returns the parameters in an environment of azd, from which the description of a first deployment is made."""
    found: Parameters = {}
    known = types()
    for name, variable in described().items():
        value = environment.get(variable, "")
        if value:
            found[name] = (
                value if known[name] == "string" else json.loads(value.lower() if known[name] == "bool" else value)
            )
    return found


def to_variables(parameters: Parameters) -> dict[str, str]:
    """Returns all variables of azd's environment for a description; empty ones stand for the defaults."""
    given: dict[str, str] = {}
    known = types()
    for name, variable in described().items():
        empty = {"object": "{}", "array": "[]"}.get(known[name], "")
        if name in parameters:
            value = parameters[name]
            given[variable] = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        elif name != "location":
            given[variable] = _LIST_DEFAULTS.get(name, empty)
    return given


_LIST_DEFAULTS = {"artifactCorsOrigins": '["*"]'}
"""Lists whose default in main.bicep is not empty. azd refuses an empty variable for these as invalid JSON."""


def of_deployment(recorded: Mapping[str, Any]) -> Parameters:
    """Returns the parameters that Azure has recorded of a deployment, without those that no description gives."""
    return {
        name: entry["value"]
        for name, entry in sorted(recorded.items())
        if name in described() and "value" in entry and entry["value"] != ""
    }
