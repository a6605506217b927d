"""The commands of `az` that hooks, pipelines and runbooks use, over the stub's state."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jmespath

from tests.promises.infra.azure import arm
from tests.promises.infra.azure.cloud import PERSON, ROOT, SITE, VAULT, Cloud, NotFoundError

STORAGE, VERSION = "Microsoft.Storage/storageAccounts", "2.79.0"


class RefusedError(Exception):
    """The command fails with this message."""


@dataclass
class Options:
    """A command's options; those that were given and never read are unknown to the stub."""

    given: Mapping[str, list[str]]
    read: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> str:
        if not self.list(name):
            raise RefusedError(f"the following arguments are required: --{name}")
        return self.list(name)[0]

    def list(self, name: str) -> list[str]:
        """Returns all values of an option."""
        self.read.add(name)
        return self.given.get(name, [])

    def get(self, name: str, default: str = "") -> str:
        """Returns the first value of an option."""
        return (self.list(name) or [default])[0]


class Az:
    """Runs commands."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.called: list[str] = []
        self.regions = {"": ["West Europe", "northeurope", "eastus2"], "zones": ["westeurope", "northeurope"]}
        self.principal = "user"
        self.what_if: Any = None
        """What is answered instead of what would change."""
        self.fails: set[str] = set()
        """Commands that fail, as when a sign-in has ended."""

    def run(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Runs a command; returns exit code, output and errors."""
        self.called.append(" ".join(arguments))
        try:
            words, options = _parsed(arguments)
            command = self._COMMANDS.get(" ".join(words))
            if " ".join(words) in self.fails:
                raise RefusedError("Please run 'az login' to setup account.")
            if command is None:
                raise RefusedError(f"'{' '.join(words)}' is misspelled or not recognized by the system.")
            found = command(self, options)
            query, form = options.get("query"), options.get("output", "json")
            for each in ("subscription", "only-show-errors", "yes", "no-pretty-print"):
                options.list(each)
            if unknown := options.given.keys() - options.read:
                raise RefusedError(f"unrecognized arguments: {', '.join(sorted(unknown))}")
            return 0, _written(jmespath.search(query, found) if query else found, form), ""
        except NotFoundError as error:
            return 3, "", f"ERROR: (ResourceNotFound) {error} was not found."
        except RefusedError as error:
            return 2, "", f"ERROR: {error}"

    # What is asked before a deployment

    def _login(self, _: Options) -> Any:
        return []

    def _account_show(self, options: Options) -> Any:
        return {"id": ROOT.rpartition("/")[2], "user": {"type": self.principal, "name": "person@example.com"}}

    def _account_token(self, options: Options) -> Any:
        for each in ("resource", "scope", "tenant"):
            options.list(each)
        return {"accessToken": arm.token(), "expiresOn": "2036-01-01 00:00:00.000000", "expires_on": 2082758400}

    def _signed_in(self, _: Options) -> Any:
        return {"id": PERSON}

    def _flex_locations(self, options: Options) -> Any:
        zones = "zone-redundant" in options.given
        options.read.add("zone-redundant")
        return [{"name": each} for each in self.regions["zones" if zones else ""]]

    def _provider_show(self, options: Options) -> Any:
        state = "NotRegistered" if options["namespace"] in self._cloud.unregistered else "Registered"
        return {"registrationState": state}

    def _provider_register(self, options: Options) -> Any:
        options.list("wait")
        self._cloud.unregistered.discard(options["namespace"])

    def _group_exists(self, options: Options) -> Any:
        return options["name"] in self._cloud.groups()

    def _resource_list(self, options: Options) -> Any:
        if options["resource-group"] not in self._cloud.groups():
            raise NotFoundError(options["resource-group"])
        return self._cloud.of_type(options["resource-type"], options["resource-group"])

    def _resource_show(self, options: Options) -> Any:
        options.list("api-version")
        wanted = options["ids"]
        if wanted.lower() not in self._cloud.resources:
            name = wanted.rpartition("/")[2]
            raise RefusedError(f"(SecretNotFound) A secret with (name/id) {name} was not found in this key vault.")
        return self._cloud.resources[wanted.lower()]

    def _deleted_vaults(self, options: Options) -> Any:
        options.list("resource-type")
        return [
            {
                "name": name,
                "properties": {
                    "vaultId": f"{ROOT}/resourceGroups/{group}/providers/{VAULT}/{name}",
                    "location": "westeurope",
                },
            }
            for name, group in self._cloud.deleted_vaults.items()
        ]

    def _what_if(self, options: Options) -> Any:
        for each in ("location", "template-file"):
            options.list(each)
        given = json.loads(Path(options["parameters"].removeprefix("@")).read_text())["parameters"]
        if self.what_if is not None:
            return self.what_if
        return self._cloud.predicted({name: each["value"] for name, each in given.items()})

    def _deployments(self, _: Options) -> Any:
        return list(self._cloud.deployments.values())

    # What runbooks do

    def _secret_show(self, options: Options) -> Any:
        versions = self._cloud.secrets.get(options["vault-name"], {}).get(options["name"])
        if not versions:
            raise RefusedError(f"(SecretNotFound) A secret with (name/id) {options['name']} was not found")
        return {"value": versions[-1], "name": options["name"]}

    def _secret_set(self, options: Options) -> Any:
        self._cloud.set_secret(options["vault-name"], options["name"], options["value"])
        return {"name": options["name"]}

    def _secret_attributes(self, options: Options) -> Any:
        return {"name": options["name"], "attributes": {"enabled": options["enabled"]}, "v": options["vault-name"]}

    def _app(self, options: Options) -> str:
        name: str = self._cloud.one(SITE, options["name"])["name"]
        if f"/resourcegroups/{options['resource-group']}/".lower() not in self._cloud.one(SITE, name)["id"].lower():
            raise NotFoundError(f"{name} in {options['resource-group']}")
        return name

    def _start(self, options: Options) -> Any:
        self._cloud.stopped.discard(self._app(options))
        self._cloud.events.append(f"started {self._app(options)}")

    def _stop(self, options: Options) -> Any:
        self._cloud.stopped.add(self._app(options))
        self._cloud.events.append(f"stopped {self._app(options)}")

    def _restart(self, options: Options) -> Any:
        """Starts a new process, with the secrets that the platform has fetched before."""
        self._cloud.events.append(f"restarted {self._app(options)}")

    def _put_package(self, options: Options) -> Any:
        if options["build-remote"] != "false":
            raise RefusedError("the package would be built remotely")
        self._cloud.publish(self._app(options), Path(options["src"]).read_bytes())

    def _account_id(self, options: Options) -> Any:
        found = self._cloud.one(STORAGE, options["name"])
        assert f"/resourcegroups/{options['resource-group']}/".lower() in found["id"].lower()
        return found

    def _failover(self, options: Options) -> Any:
        if not self._account_id(options)["sku"]["name"].startswith(("Standard_GRS", "Standard_RAGRS", "Standard_GZRS")):
            raise RefusedError("(OperationNotAllowed) the account is not geo-redundant")
        self._cloud.events.append(f"failed over {options['name']}")

    def _revoke(self, options: Options) -> Any:
        self._cloud.events.append(f"revoked keys of {self._account_id(options)['name']}")

    def _assign(self, options: Options) -> Any:
        who = options.get("assignee") or options["assignee-object-id"]
        options.list("assignee-principal-type")
        self._cloud.events.append(f"assigned {options['role']} on {options['scope']} to {who}")
        return {}

    def _identities(self, options: Options) -> Any:
        kind = "Microsoft.ManagedIdentity/userAssignedIdentities"
        found = self._cloud.of_type(kind, options["resource-group"])
        return [{"name": each["name"], "principalId": each["properties"]["principalId"]} for each in found]

    def _rest(self, options: Options) -> Any:
        url = urlsplit(options["url"])
        if url.path.endswith("/hostruntime/admin/host/status"):
            return {"state": "Running", "version": "4.1050.100.26100"}
        found = re.fullmatch(rf"/.*/providers/{SITE}/([\w-]+)/config/configreferences/appsettings(/refresh)?", url.path)
        if found is None or url.netloc != "management.azure.com" or "api-version=" not in url.query:
            raise RefusedError(f"Not Found({options['url']})")
        if bool(found[2]) != (options["method"] == "post"):
            raise RefusedError("Method Not Allowed")
        if found[2]:
            self._cloud.denied.discard(found[1])
            self._cloud.fetch(found[1])
        return arm.references(self._cloud, found[1])

    _COMMANDS: Mapping[str, Callable[[Az, Options], Any]] = {
        "login": _login,
        "account show": _account_show,
        "account get-access-token": _account_token,
        "ad signed-in-user show": _signed_in,
        "functionapp list-flexconsumption-locations": _flex_locations,
        "provider show": _provider_show,
        "provider register": _provider_register,
        "group exists": _group_exists,
        "resource list": _resource_list,
        "resource show": _resource_show,
        "keyvault list-deleted": _deleted_vaults,
        "deployment sub what-if": _what_if,
        "deployment sub list": _deployments,
        "keyvault secret show": _secret_show,
        "keyvault secret set": _secret_set,
        "keyvault secret set-attributes": _secret_attributes,
        "functionapp start": _start,
        "functionapp stop": _stop,
        "functionapp restart": _restart,
        "functionapp deployment source config-zip": _put_package,
        "storage account show": _account_id,
        "storage account failover": _failover,
        "storage account revoke-delegation-keys": _revoke,
        "role assignment create": _assign,
        "identity list": _identities,
        "rest": _rest,
    }


def _parsed(arguments: Sequence[str]) -> tuple[list[str], Options]:
    """Returns words and options. As with az, an argument that begins with `-` is no value of the option before it."""
    words: list[str] = []
    options: dict[str, list[str]] = {}
    at = words
    for each in arguments:
        if each.startswith("-"):
            if not each.startswith("--"):
                raise RefusedError(f"unrecognized arguments: {each}")
            name, equals, value = each.removeprefix("--").partition("=")
            at = options.setdefault(name, [])
            if equals:
                at.append(value)
        else:
            at.append(each)
    return words, Options(options)


def _written(found: Any, form: str) -> str:
    if form == "none" or found is None:
        return ""
    if form == "tsv":
        rows = found if isinstance(found, list) else [found]
        return "".join("\t".join(map(_cell, row if isinstance(row, list) else [row])) + "\n" for row in rows)
    return json.dumps(found) + "\n"


def _cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
