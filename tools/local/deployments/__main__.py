"""`python3 -m tools.local.deployments`: what azd's hook does before it provisions, and a description of what there is.

Standard library only: hooks run this before anything is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.local.deployments import description, differences, grants, memory
from tools.local.deployments.description import ROOT, Parameters, Refused

CONFIRM = "QUEUE_CONFIRM"


def az(*arguments: str) -> Any:
    """Runs az and returns what it answers. Raises Refused with its message if it fails."""
    done = subprocess.run(["az", *arguments, "--output", "json"], capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise Refused(f"az {' '.join(arguments[:3])} fails: {done.stderr.strip() or done.stdout.strip()}")
    try:
        return json.loads(done.stdout or "null")
    except ValueError as error:
        raise Refused(f"az {' '.join(arguments[:3])} answers no JSON") from error


def say(text: str) -> None:
    """Prints what people should know."""
    print(f"deployment: {text}", flush=True)


class Environment:
    """An environment of azd, as its hooks see it."""

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        self.variables = variables
        try:
            self.name = variables["AZURE_ENV_NAME"]
            self.subscription = variables["AZURE_SUBSCRIPTION_ID"]
            self.location = variables["AZURE_LOCATION"]
        except KeyError as missing:
            raise Refused(
                f"{missing.args[0]} is not set: azd runs hooks before it asks for what is missing. Say it first:\n"
                "  azd env set AZURE_SUBSCRIPTION_ID=ID AZURE_LOCATION=REGION"
            ) from missing
        self.principal = _principal(variables, self.subscription)
        self.group = variables.get("AZURE_RESOURCE_GROUP") or f"rg-{self.name}"
        self.file = description.path(self.name, folder)

    def is_deployed(self) -> bool:
        """Returns whether its resource group exists."""
        return bool(az("group", "exists", "--subscription", self.subscription, "--name", self.group))

    def parameters(self) -> Parameters:
        """Returns what the description says. For a first deployment, the description is made of azd's environment."""
        if not self.file.exists():
            if self.is_deployed():
                raise Refused(
                    f"{self.group} is deployed, and there is no {_shown(self.file)}.\n"
                    "Take the branch that has it, or write it from what was deployed last, look at it, and commit it:\n"
                    f"  python3 -m tools.local.deployments pull {self.name} --subscription {self.subscription}"
                )
            made = description.of_variables(self.variables)
            if self.principal[1] == "User":
                made.setdefault("operatorPrincipalId", self.principal[0])
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(
                description.text({name: value for name, value in made.items() if value != ""}), encoding="utf-8"
            )
            say(f"wrote {_shown(self.file)}, which from now on says what is deployed: commit it")
        parameters = description.read(self.file)
        if parameters.get("location", self.location) != self.location:
            raise Refused(f"{_shown(self.file)} says {parameters['location']}, and azd's environment {self.location}")
        if parameters.get("monthlyBudget") and not parameters.get("budgetStart"):
            raise Refused(f"{_shown(self.file)}: a budget needs its budgetStart, the first of this month: 2026-01-01")
        for shortage in memory.shortages(parameters):
            raise Refused(f"{_shown(self.file)}: {shortage}. Fewer calls at a time or smaller bodies: docs/scaling.md")
        return parameters

    def pass_on(self, parameters: Parameters) -> None:
        """Sets azd's environment to what the description says, and the name of the build."""
        wanted = {
            **description.to_variables(parameters),
            "QUEUE_APP_VERSION": build(self.variables),
            "AZURE_PRINCIPAL_TYPE": self.principal[1],
        }
        changed = {name: value for name, value in wanted.items() if self.variables.get(name) != value}
        for name, value in changed.items():
            if self.variables.get(name) and name in description.described().values():
                says = f"{_shown(self.file)} says {value or 'the default'}"
                say(f"{name} was {self.variables[name]}; {says}, which counts")
        if changed:
            pairs = [f"{name}={value}" for name, value in changed.items()]
            if subprocess.run(["azd", "env", "set", *pairs], check=False, stdin=subprocess.DEVNULL).returncode != 0:
                raise Refused(f"azd env set {', '.join(changed)} fails")

    def predicted(self, parameters: Parameters) -> dict[str, Any]:
        """Returns what Azure predicts of a deployment: changes, and what it has left out. Raises Refused."""
        everything = {
            **parameters,
            "environmentName": self.name,
            "location": self.location,
            "appVersion": build(self.variables),
            "principalId": self.principal[0],
            "principalType": self.principal[1],
        }
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "parameters.json"
            file.write_text(description.text(everything), encoding="utf-8")
            where = ("--subscription", self.subscription, "--location", self.location)
            what = ("--template-file", str(ROOT / "infra" / "main.bicep"), "--parameters", f"@{file}")
            answer = az("deployment", "sub", "what-if", *where, *what, "--no-pretty-print", "--only-show-errors")
        if not isinstance(answer, dict) or answer.get("status") != "Succeeded":
            raise Refused(f"what-if did not succeed: {json.dumps((answer or {}).get('error'))}")
        return answer


def _principal(variables: Mapping[str, str], subscription: str) -> tuple[str, str]:
    """Returns id and type of the principal that deploys, which azd does not pass to hooks."""
    kind = variables.get("AZURE_PRINCIPAL_TYPE", "")
    if not kind:
        account = az("account", "show", "--subscription", subscription, "--query", "user.type")
        kind = "User" if account == "user" else "ServicePrincipal"
    identity = variables.get("AZURE_PRINCIPAL_ID", "")
    if kind == "User" and not identity:
        identity = az("ad", "signed-in-user", "show", "--query", "id")
    return identity, kind


def build(variables: Mapping[str, str]) -> str:
    """Returns the build that the version endpoint shows: QUEUE_BUILD, or the commit of the checkout."""
    if variables.get("QUEUE_BUILD"):
        return variables["QUEUE_BUILD"]
    command = ["git", "-C", str(ROOT), "describe", "--tags", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    return done.stdout.strip() or "unknown"


def apply(environment: Environment) -> None:
    """Runs before azd provisions: sets azd's environment to what the description says, and shows what would change.

    Raises Refused for a dangerous change that QUEUE_CONFIRM does not name.
    """
    parameters = environment.parameters()
    environment.pass_on(parameters)
    if not environment.is_deployed():
        say(f"{environment.group} is new: there is nothing that could change")
        return
    found: list[differences.Danger] = []
    try:
        predicted = environment.predicted(parameters)
        changes = predicted.get("changes") or []
        say("what would change: " + "\n".join(differences.lines(changes)))
        found += differences.dangers(changes)
        found += differences.left_out(predicted.get("diagnostics") or [])
    except Refused as reason:
        found.append(differences.Danger("unseen", str(reason)))
    confirmed = set(environment.variables.get(CONFIRM, "").replace(",", " ").split())
    for each in found:
        say(f"{'confirmed' if each.kind in confirmed else 'DANGEROUS'} {each.kind}: {each.what}")
    missing = [kind for kind in differences.KINDS if kind in {each.kind for each in found} - confirmed]
    if missing:
        meaning = "".join(f"\n  {kind}: {differences.KINDS[kind]}" for kind in missing)
        raise Refused(
            f"nothing was changed. What is dangerous takes a word:{meaning}\nIf {_shown(environment.file)} is right:\n"
            f"  {CONFIRM}={','.join(missing)} azd provision\n"
            "In the pipeline: run the workflow Deploy by hand, with these words in the field confirm."
        )


def pull(name: str, subscription: str, folder: Path) -> None:
    """Writes the description from the parameters that Azure has recorded of the last deployment."""
    query = f"[?properties.parameters.environmentName.value=='{name}' && properties.provisioningState=='Succeeded']"
    found = az("deployment", "sub", "list", "--subscription", subscription, "--query", query)
    if not found:
        raise Refused(f"Azure has recorded no deployment of {name} in {subscription}")
    last = max(found, key=lambda each: str(each["properties"]["timestamp"]))
    file = description.path(name, folder)
    if file.exists():
        raise Refused(f"{_shown(file)} exists: remove it first, if it is wrong")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(description.text(description.of_deployment(last["properties"]["parameters"])), encoding="utf-8")
    say(f"wrote {_shown(file)} from the deployment {last['name']}: look at it, and commit it")


def change(file: Path, parameter: str, value: str) -> None:
    """Changes the value of a parameter, or one key of an object (`profileOverrides.logRetentionDays`). The value is
    read as JSON unless the parameter is a string; empty sets the default."""
    parameters = description.read(file)
    name, dot, key = parameter.partition(".")
    kind = description.types().get(name)
    if dot and kind != "object":
        raise Refused(f"{name} is no object, and has no {key}")
    inside = parameters.setdefault(name, {}) if dot else parameters
    if not value:
        inside.pop(key or name, None)
    elif kind == "string":
        inside[name] = value
    else:
        try:
            inside[key or name] = json.loads(value)
        except ValueError as error:
            raise Refused(f"{parameter} takes JSON (a text in quotes), not {value}") from error
    changed = file.with_suffix(".new")
    changed.write_text(description.text(parameters), encoding="utf-8")
    try:
        description.read(changed)
    except Refused:
        changed.unlink()
        raise
    changed.replace(file)


def grant(name: str, subscription: str, folder: Path) -> None:
    """Gives the deployment its roles on the storage account that its description names. May be repeated."""
    parameters = description.read(description.path(name, folder))
    account = parameters.get("storageAccountId")
    if not account:
        raise Refused(f"{name} takes no storage account: the templates give the roles")
    group = parameters.get("names", {}).get("resourceGroup", f"rg-{name}")
    where = ("--subscription", subscription, "--resource-group", group)
    found = {each["name"]: each["principalId"] for each in az("identity", "list", *where)}
    try:
        deployment = next(principal for identity, principal in found.items() if identity.startswith("id-deploy-"))
        app = next(
            found[identity] for identity in found if not identity.startswith(("id-deploy-", "id-worker-", "id-notify-"))
        )
    except StopIteration:
        raise Refused(f"{group} has no identities: azd provision makes them") from None
    operator = parameters.get("operatorPrincipalId", "none")
    person = None if operator == "none" else (operator, parameters.get("operatorPrincipalType", "User"))
    for role, scope, principal, kind in grants.needed(account, app, deployment, person):
        who = ("--assignee-object-id", principal, "--assignee-principal-type", kind)
        az("role", "assignment", "create", "--role", role, "--scope", scope, *who)
    say(f"{group} may use {account}")


def _selected() -> str:
    """Returns the environment that azd has selected."""
    name = os.environ.get("AZURE_ENV_NAME")
    if not name:
        done = subprocess.run(
            ["azd", "env", "get-value", "AZURE_ENV_NAME"], capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode != 0:
            raise Refused("say which --environment: azd has selected none")
        name = done.stdout.strip()
    return name


def _shown(file: Path) -> str:
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)


def main() -> int:
    """Runs the command; returns 1 if something is refused."""
    parser = argparse.ArgumentParser(
        prog=os.environ.get("STARTED_AS", "python3 -m tools.local.deployments"),
        description="The description of a deployment.",
    )
    parser.add_argument("--folder", type=Path, default=description.FOLDER, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("apply", help="set azd's environment to the description, show what would change, or refuse")
    puller = commands.add_parser("pull", help="write the description of what was deployed last")
    puller.add_argument("environment")
    puller.add_argument("--subscription", required=True)
    granter = commands.add_parser("grant", help="give a deployment its roles on a storage account that it takes")
    granter.add_argument("environment")
    granter.add_argument("--subscription", required=True)
    setter = commands.add_parser("set", help="change a value of the description; empty: the template's default")
    setter.add_argument("parameter", help="its name, or `profileOverrides.KEY` for one key of an object")
    setter.add_argument("value")
    setter.add_argument("--environment", help="other than the one that azd has selected")
    arguments = parser.parse_args()
    try:
        if arguments.command == "apply":
            apply(Environment(os.environ, arguments.folder))
        elif arguments.command == "grant":
            grant(arguments.environment, arguments.subscription, arguments.folder)
        elif arguments.command == "set":
            name = arguments.environment or _selected()
            change(description.path(name, arguments.folder), arguments.parameter, arguments.value)
        else:
            pull(arguments.environment, arguments.subscription, arguments.folder)
    except Refused as reason:
        print(f"deployment: {reason}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        if error.filename not in ("az", "azd"):
            raise
        print(f"deployment: {error.filename} is not installed, or not on the PATH", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
