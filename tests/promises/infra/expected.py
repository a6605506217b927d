"""Evaluates what deployed.txt says of a deployment: names in its expressions, and comparison with what is deployed."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from notify.notices import TASK_TOPICS, TOPICS
from notify.sending import LAST_DELIVERY, PAUSE
from notify.sending import Settings as NotifierSettings
from shared.api.validation import MAX_BODY
from shared.base.protocol import REPEATS_RECOGNISED, SIGNED_URL_CLOCK_SKEW
from shared.base.settings import Settings, SettingsError
from shared.queue.artifacts import reading
from shared.queue.artifacts.rules import LONGEST_UPLOAD
from shared.queue.claims import poll_urls
from shared.queue.events.rules import Exchange
from shared.telemetry.instruments import INSTRUMENTS
from tests.promises.infra.azure.cloud import as_given
from tools.admin.worker_clients import WORKER_GROUP, secret_names, worker_client_id, worker_scopes
from tools.listen.filters import rules_for
from tools.local import settings_docs
from tools.local.deployments.differences import seconds
from tools.local.deployments.memory import Instance, merged
from tools.local.state import ROOT
from tools.local.templates import scenarios, values
from tools.local.templates.values import Deployed, Resource, answer, guid, unique_string
from worker.options import Options, parse

FILE = Path(__file__).parent / "deployed.txt"
_SECTION = re.compile(r"\[([\w./]+)\] (.*) \| (.*)")
ROLE = "Microsoft.Authorization/roleAssignments"
IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
KEPT = {
    **dict(
        zip(("root-access-token", "message-signing-keys", "access-token-keys"), scenarios.SECRETS.values(), strict=True)
    ),
    "root-access-token-previous": "earlier-token-of-the-tests-only-44",
    "storage-account-key": "a2V5IG9mIHRoZSB0ZXN0cyBvbmx5",
    "notify-access-token": "notifier-token-of-the-tests-only",
    "notify-channels": '{"teams": {"builds": "https://hooks.example.com/builds"}}',
}
"""Example secrets, by their names in the vault."""
PLATFORM = {
    *(f"AzureWebJobsStorage__{each}" for each in ("credential", "clientId")),
    *(f"AzureWebJobsStorage__{each}ServiceUri" for each in ("blob", "queue", "table")),
    "AzureWebJobsDisableHomepage",
    "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    *(f"AzureFunctionsJobHost__extensions__queues__{each}" for each in ("batchSize", "newBatchThreshold")),
}
"""Settings that the platform reads, and no code of the app."""
READ = {name.upper() for name in Settings.model_fields} - set(settings_docs.KEYS_INSTEAD_OF_IDENTITIES)
ROLES_OF_THE_APP = {
    "": ("storageBlobDelegator", "storageQueueDataContributor", "storageTableDataContributor", "storageQueueDelegator"),
    "serviceBus": ("serviceBusDataSender",),
    "keyVault": ("keyVaultSecretsUser",),
    "applicationInsights": ("monitoringMetricsPublisher",),
}
"""Roles of the app's identity (docs/security.md, Least privilege), by the key of the resource's name; empty: the
storage account."""
ROLES_OF_THE_OPERATOR = {
    "": ("storageBlobDataContributor", "storageQueueDataContributor", "storageTableDataContributor"),
    "serviceBus": ("serviceBusDataOwner",),
    "keyVault": ("keyVaultSecretsOfficer",),
    "logAnalytics": ("monitoringReader",),
}
ROLE_IDS = {
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "storageBlobDataContributor",
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "storageBlobDataOwner",
    "db58b8e5-c6ad-4a2a-8342-4190687cbf4a": "storageBlobDelegator",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "storageQueueDataContributor",
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "storageTableDataContributor",
    "7ee386e9-84f0-448e-80a6-f185f6533131": "storageQueueDelegator",
    "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39": "serviceBusDataSender",
    "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0": "serviceBusDataReceiver",
    "09976791-48a7-449e-bb21-39d1a415f350": "communicationOwner",
    "090c5cfd-751d-490a-894a-3ce6f1109419": "serviceBusDataOwner",
    "4633458b-17de-408a-874b-0445c86b69e6": "keyVaultSecretsUser",
    "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": "keyVaultSecretsOfficer",
    "3913510d-42f4-4e42-8a64-420c390055eb": "monitoringMetricsPublisher",
    "43d0d8ad-25c7-4714-9337-8ba259a9fe05": "monitoringReader",
    "7f951dda-4ed3-4680-a7ca-43fe172d538d": "acrPull",
}
"""Names of roles by id, from Azure's list of built-in roles. None but that of mail, for which there is no other,
manages resources or reads keys of accounts."""
METRICS: Mapping[str, tuple[str, ...]] = {
    "poison-messages": ("queue_poison_messages",),
    "oldest-pending": ("queue_oldest_pending_task_age_seconds",),
    "timer-lateness": ("queue_timer_lateness_seconds",),
    "event-backlog": ("queue_event_backlog",),
    "events-lost": ("queue_lost_events", "queue_unannounced_expirations"),
    "stalled-tasks": ("queue_stalled_tasks",),
    "credentials-end": ("queue_ending_credentials",),
}
"""The metrics that each alert is about."""
_COMMON = {"TimeGenerated", "Name", "Properties", "ItemCount"}
COLUMNS = {
    "AppMetrics": {*_COMMON, "Sum", "Min", "Max"},
    "_LogOperation": {"TimeGenerated", "Category", "Detail", "Level", "Operation"},
    "AppTraces": {*_COMMON, "Message", "SeverityLevel"},
    "AppRequests": {*_COMMON, "Url", "ResultCode", "Success", "DurationMs", "OperationName", "Id"},
}
"""The columns of Azure's tables that queries may need, from Azure's reference."""
OF_THE_HOST = {"AppRequests": {"Category"}}
"""Properties that the host adds, by table."""
_WORDS = {
    "where",
    "project",
    "summarize",
    "extend",
    "by",
    "in",
    "contains",
    "and",
    "or",
    "asc",
    "desc",
    "order",
    "render",
    "timechart",
}


def rows() -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Yields each section: the type, the expression of its names, and its rows of path, value and reason."""
    found: list[tuple[str, str, list[tuple[str, str, str]]]] = []
    for line in FILE.read_text().splitlines():
        if section := _SECTION.fullmatch(line):
            found.append((section[1], section[2], []))
        elif line and not line.startswith("#"):
            path, _, rest = line.partition(" | ")
            value, _, why = rest.rpartition(" | ")
            found[-1][2].append((path, value, why))
    return iter(found)


def document(infra: Path, name: str) -> Any:
    """Returns a JSON file of the templates."""
    return json.loads((infra / name).read_text())


class Said(dict[str, Any]):
    """The names that expressions of deployed.txt use, for one deployment."""

    def __init__(self, deployed: Deployed, given: Mapping[str, Any], infra: Path) -> None:
        g = SimpleNamespace(**{**defaults(deployed), **given})
        p = SimpleNamespace(
            **{**document(infra, f"profiles/{g.profile}.json"), **g.profileOverrides}, overridden=g.settingOverrides
        )
        token = unique_string(f"/subscriptions/{values.SUBSCRIPTION}", g.environmentName, g.location)
        prefixes = document(infra, "abbreviations.json")
        generated = {key: f"{prefix}{token}" for key, prefix in prefixes.items()}
        generated["uploadsPlan"] = f"{prefixes['plan']}uploads-{token}"
        generated["uploadsApp"] = f"{prefixes['functionApp']}uploads-{token}"
        for key in ("plan", "functionApp", "identity"):
            generated[f"notify{key.removeprefix('function').capitalize()}"] = f"{prefixes[key]}notify-{token}"
        generated["notifyStorage"] = f"{prefixes['storage']}notify{token}"
        generated["resourceGroup"] = f"{document(infra, 'abbreviations.json')['resourceGroup']}{g.environmentName}"
        n = SimpleNamespace(**{**generated, **g.names})
        group_id = f"/subscriptions/{values.SUBSCRIPTION}/resourceGroups/{n.resourceGroup}"
        super().__init__(
            p=p,
            g=g,
            n=n,
            group_id=group_id,
            s=SimpleNamespace(**document(infra, "suffixes.json")),
            e=SimpleNamespace(**document(infra, "entities.json")),
            w=document(infra, "workers/defaults.json"),
            tenant=values.TENANT,
            subscription=values.SUBSCRIPTION,
            premium=p.serviceBusSku == "Premium",
            takes=bool(g.storageAccountId),
            storage=g.storageAccountId.rpartition("/")[2] or n.storage,
            accounts=[*([] if g.storageAccountId else [n.storage]), *([n.notifyStorage] if g.notifyApp else [])],
            notify=g.notify,
            mails=g.notifyApp and bool(g.notify.get("mailDomains")),
            topic=lambda name: f"{g.topicPrefix}{name}".replace("/", "~"),
            filters=lambda pattern: rules_for(Exchange.TASK_FAILED, pattern),
            emails=[each.strip() for each in g.alertEmails.split(",") if each.strip()],
            document=lambda name: document(infra, name),
            **_FUNCTIONS,
        )
        closed = "Disabled" in (g.appPublicAccess, g.storagePublicAccess, g.keyVaultPublicAccess)
        closed = (
            closed or bool(g.storageAllowedAddresses) or (self["premium"] and g.serviceBusPublicAccess == "Disabled")
        )
        queues = [each.strip() for each in g.workers.split(",") if each.strip()]
        pools = {
            each: f"{document(infra, 'abbreviations.json')['worker']}{unique_string(token, each)}" for each in queues
        }
        deployer = g.principalId if g.principalType == "User" else ""
        operator = "" if g.operatorPrincipalId == "none" else g.operatorPrincipalId or deployer
        self.update(
            in_network=g.virtualNetwork or closed,
            pools=pools,
            worker_identities=[f"id-{each}" for each in pools.values()],
            operator=operator,
            operator_type=g.operatorPrincipalType if g.operatorPrincipalId else "User",
            defines_roles=bool(operator and deployer),
            addresses=[address for each in g.storageAllowedAddresses for address in _addresses(each)],
            secrets={**{name: getattr(g, key) for name, key in _SECRETS.items()}},
            ids=SimpleNamespace(
                workspace=f"{group_id}/providers/Microsoft.OperationalInsights/workspaces/{n.logAnalytics}",
                network=f"{group_id}/providers/Microsoft.Network/virtualNetworks/{n.virtualNetwork}",
                ofWorkers=f"{group_id}/providers/Microsoft.Network/networkSecurityGroups/{n.virtualNetwork}-workers",
                workerEnvironment=f"{group_id}/providers/Microsoft.App/managedEnvironments/{n.workerEnvironment}",
                actionGroup=f"{group_id}/providers/Microsoft.Insights/actionGroups/{n.actionGroup}",
            ),
            identity=lambda name: f"{group_id}/providers/{IDENTITY}/{name}",
            client=lambda name: answer(IDENTITY, name, "properties.clientId"),
            secret=lambda name: f"@Microsoft.KeyVault(SecretUri=https://{n.keyVault}.vault.azure.net/secrets/{name}/)",
            queue=lambda r: next(each for each, name in pools.items() if name == r.name),
            size=lambda r: SimpleNamespace(**{**self["w"], **g.workerOverrides.get(self["queue"](r), {})}),
            alert=lambda r: r.name.removeprefix(f"{n.alert}-"),
            short=lambda r: r.name.removeprefix(f"{n.privateEndpoint}-"),
            worker_reads=lambda env, r: _worker_reads(env, self["queue"](r), self["size"](r), self.root_url),
            apps=self._apps(),
            own=self._own,
            load_url=self._load_url,
            root_url=self.root_url,
            query_alerts=_query_alerts(p.alerts) | ({"notifications-given-up": (2, 0)} if g.notifyApp else {}),
            told={"contactEmails": self["emails"], "contactGroups": []},
            read_settings=READ | PLATFORM,
            subnets={},
        )
        self.update(endpoints=self._endpoints(), roles=list(self._roles()), metric_alerts=self._metric_alerts())
        if g.signWithAccountKey and not self["takes"]:
            self["secrets"]["storage-account-key"] = True
        self["told"]["contactGroups"] = [self["ids"].actionGroup]
        for each in deployed.all_resources():
            if each.type == "Microsoft.Network/virtualNetworks":
                subnets = each.body["properties"]["subnets"]
                self["subnets"] = {at["name"]: at["properties"]["addressPrefix"] for at in subnets}

    @property
    def root_url(self) -> str:
        return self["g"].rootUrl or f"https://{self['n'].functionApp}.{self['s'].app}"

    def _apps(self) -> dict[str, SimpleNamespace]:
        """Returns what each app serves, with the profile's values for it, by the app's name."""
        n, g, p, s = self["n"], self["g"], self["p"], self["s"]
        uploads = f"https://{n.uploadsApp}.{s.app}" if g.uploadsApp else ""
        calls = {
            **vars(p),
            "serves": "calls",
            "service": "queue",
            "plan": n.plan,
            "identity": n.identity,
            "packages": n.deploymentIdentity,
            "storage": self["storage"],
            "root_url": self.root_url,
            "uploads_root_url": uploads,
            "people": g.openidClientId,
            "workloads": g.openidWorkloadIssuer,
        }
        others = {
            **merged(calls, p.uploads),
            "serves": "uploads",
            "service": "uploads",
            "plan": n.uploadsPlan,
            "root_url": uploads,
            "uploads_root_url": "",
            "people": "",
            "workloads": "",
            "overridden": {},
        }
        differs: dict[str, Any] = {"instanceMemoryMB": 512, "maximumInstanceCount": 40, "alwaysReady": []}
        differs |= {"zoneRedundant": False, "serves": "notifications", "service": "notify", "plan": n.notifyPlan}
        differs |= {"identity": n.notifyIdentity, "packages": n.notifyIdentity, "storage": n.notifyStorage}
        return {
            n.functionApp: SimpleNamespace(**calls),
            **({n.uploadsApp: SimpleNamespace(**others)} if uploads else {}),
            **({n.notifyApp: SimpleNamespace(**{**calls, **differs})} if g.notifyApp else {}),
        }

    def _own(self, r: Resource) -> SimpleNamespace:
        """Returns the app that a resource belongs to: the app itself, its plan, or what is below it."""
        apps: dict[str, SimpleNamespace] = self["apps"]
        name = r.name.partition("/")[0]
        return next(each for app, each in apps.items() if name in (app, each.plan))

    def _load_url(self, r: Resource) -> str:
        return f"{self.root_url}/api/queue/v1/task-queues/{quote(self['queue'](r), safe='')}/load"

    def _endpoints(self) -> dict[str, tuple[str, str]]:
        """Returns the id of the service, and the zone in which Azure looks up its names, by sub-resource."""
        n, g, providers = self["n"], self["g"], f"{self['group_id']}/providers"
        if not self["in_network"]:
            return {}
        account = g.storageAccountId or f"{providers}/Microsoft.Storage/storageAccounts/{n.storage}"
        found = {each: (account, f"privatelink.{each}.core.windows.net") for each in ("blob", "queue", "table")}
        found["vault"] = (f"{providers}/Microsoft.KeyVault/vaults/{n.keyVault}", "privatelink.vaultcore.azure.net")
        if g.notifyApp:
            found["blob-notify"] = (
                f"{providers}/Microsoft.Storage/storageAccounts/{n.notifyStorage}",
                found["blob"][1],
            )
        if self["premium"]:
            namespace = f"{providers}/Microsoft.ServiceBus/namespaces/{n.serviceBus}"
            found["namespace"] = (namespace, "privatelink.servicebus.windows.net")
        if g.appPublicAccess == "Disabled":
            zone = "privatelink.azurewebsites.net"
            found["sites"] = (f"{providers}/Microsoft.Web/sites/{n.functionApp}", zone)
            if g.notifyApp:
                found["sites-notify"] = (f"{providers}/Microsoft.Web/sites/{n.notifyApp}", zone)
            if g.uploadsApp:
                found["sites-uploads"] = (f"{providers}/Microsoft.Web/sites/{n.uploadsApp}", zone)
        return found

    def _roles(self) -> Iterator[str]:
        """Yields role assignments in words: who, which role, and on what."""
        n, e = self["n"], self["e"]
        for who, by_resource in (("app", ROLES_OF_THE_APP), ("operator", ROLES_OF_THE_OPERATOR)):
            for key, names in by_resource.items():
                if (key or not self["takes"]) and (who == "app" or self["operator"]):
                    yield from (f"{who} {role} {getattr(n, key or 'storage')}" for role in names)
        if not self["takes"]:
            yield from (f"app storageBlobDataOwner {each}" for each in (*e.containers, *e.hostContainers))
            yield f"packages storageBlobDataContributor {e.platformContainers[0]}"
        if self["g"].notifyApp:
            used = (*e.hostContainers, *e.platformContainers)
            yield from (f"notifier storageBlobDataOwner {each}" for each in used)
            yield from (f"notifier serviceBusDataReceiver {self['topic'](each)}" for each in TOPICS)
            yield f"notifier monitoringMetricsPublisher {n.applicationInsights}"
            asked = {"clientId": "notify-access-token", "chat": "notify-channels"}
            yield from (f"notifier keyVaultSecretsUser {asked[key]}" for key in asked if self["notify"].get(key))
            yield from ([f"notifier communicationOwner {n.communication}"] if self["mails"] else [])
        if self["operator"]:
            yield f"operator monitoringReader {guid(self['ids'].workspace, 'queue')}"
        if self["defines_roles"]:
            yield f"operator {guid(self['group_id'], 'operator')} {n.resourceGroup}"
        for queue, name in self["pools"].items():
            yield from (f"{name} keyVaultSecretsUser {secret}" for secret in secret_names(queue))
            if self["g"].workerRegistry:
                yield f"{name} acrPull {self['g'].workerRegistry}"

    def _metric_alerts(self) -> dict[str, SimpleNamespace]:
        backlog = self["p"].alerts["eventBacklog"]
        bus = f"{self['group_id']}/providers/Microsoft.ServiceBus/namespaces/{self['n'].serviceBus}"
        account = f"{self['group_id']}/providers/Microsoft.Storage/storageAccounts/{self['n'].storage}"
        of_topics = {"severity": 3, "scope": bus, "window": "PT1H", "topics": True, "operator": "GreaterThan"}
        return {
            "dead-letters": SimpleNamespace(
                **of_topics, metric="DeadletteredMessages", threshold=backlog, aggregation="Maximum"
            ),
            "unread-events": SimpleNamespace(
                **of_topics, metric="ActiveMessages", threshold=backlog, aggregation="Minimum"
            ),
            "storage-availability": SimpleNamespace(
                severity=1,
                scope=self["g"].storageAccountId or account,
                window="PT15M",
                topics=False,
                metric="Availability",
                operator="LessThan",
                threshold=99,
                aggregation="Average",
            ),
        }


_SECRETS = {
    "root-access-token": "rootAccessToken",
    "message-signing-keys": "messageSigningKeys",
    "access-token-keys": "accessTokenKeys",
}


def defaults(deployed: Deployed) -> dict[str, Any]:
    """Returns the values of parameters that are not given."""
    empty: dict[str, Any] = {"array": [], "object": {}}
    found = {
        each.name: getattr(each.value, "plain", getattr(each.value, "value", None))
        for each in deployed.file.of("param")
    }
    found = {each.name: empty.get(each.target, found[each.name]) for each in deployed.file.of("param")}
    return {**found, "artifactCorsOrigins": ["*"]}


def _query_alerts(thresholds: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """Returns for each alert how urgent it is, and its threshold."""
    return {
        "poison-messages": (1, thresholds["poisonMessages"]),
        "oldest-pending": (2, thresholds["oldestPendingSeconds"]),
        "timer-lateness": (2, thresholds["latenessSeconds"]),
        "failed-calls": (1, thresholds["failedCallsPercent"]),
        "functions-end": (1, 3),
        "event-backlog": (2, thresholds["eventBacklog"]),
        "events-lost": (1, 0),
        "credentials-end": (2, 0),
        "stalled-tasks": (2, 0),
        "refused-credentials": (3, thresholds["refusedCalls"]),
        "logs-full": (2, 0),
        "timers-stand-still": (1, 60),
    }


def _addresses(text: str) -> list[str]:
    network = ipaddress.ip_network(text)
    return list(dict.fromkeys((str(network[0]), str(network[-1])))) if network.prefixlen > 30 else [text]


def duration(text: str) -> timedelta:
    """Parses an ISO 8601 duration."""
    found = seconds(text)
    assert found, text
    return timedelta(seconds=found)


def given(name: str, profile: SimpleNamespace) -> Any:
    """Returns a setting's value: the description's, the profile's, or the code's default; a number if it is one."""
    default = Settings.model_fields[name.lower()].default
    value = str({**profile.settings, **profile.overridden}.get(name, "" if default is None else default))
    return int(value) if value.isdigit() else value


_REFERENCE = re.compile(r"@Microsoft\.KeyVault\(SecretUri=https://[\w-]+\.vault\.azure\.net/secrets/([\w-]+)/\)")


def resolved(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings as the app sees them: references into the vault are replaced by the secrets."""
    return {name: _REFERENCE.sub(lambda match: KEPT[match[1]], value) for name, value in settings.items()}


def _accepted(settings: _Space) -> bool:
    values_ = {name.lower(): value for name, value in resolved(vars(settings)).items() if value and name in READ}
    try:
        Settings.model_validate(values_)
    except (ValidationError, SettingsError) as error:
        raise AssertionError(str(error)) from error
    return True


def _notifier_reads(settings: _Space) -> bool:
    given_ = vars(settings)
    NotifierSettings.read(resolved(given_))
    code = "".join(path.read_text() for path in (ROOT / "notify").glob("*.py"))
    unread = {each for each in given_.keys() - PLATFORM if f'"{each}"' not in code}
    connection = {f"ServiceBus__{each}" for each in ("fullyQualifiedNamespace", "credential", "clientId")}
    assert unread == {*connection, "APPLICATIONINSIGHTS_CONNECTION_STRING"}, f"nothing reads {unread}"
    return True


def _lifecycle(p: SimpleNamespace) -> list[Any]:
    actions = {"tierToCool": p.artifactCoolAfterDays, "delete": p.artifactDeleteAfterDays}
    names = {"tierToCool": "cool-artifacts", "delete": "delete-artifacts"}
    filters = {"blobTypes": ["blockBlob"], "prefixMatch": ["artifacts/", "public-artifacts/"]}
    return [
        {
            "name": names[action],
            "enabled": True,
            "type": "Lifecycle",
            "definition": {
                "filters": filters,
                "actions": {"baseBlob": {action: {"daysAfterModificationGreaterThan": days}}},
            },
        }
        for action, days in actions.items()
        if days
    ]


def _fits(subnets: list[Any], space: str) -> bool:
    """Whether subnets are within the network, apart from one another, and large enough for what they are for."""
    ranges = [ipaddress.IPv4Network(each.properties.addressPrefix) for each in subnets]
    for index, each in enumerate(ranges):
        assert each.subnet_of(ipaddress.IPv4Network(space)), f"{each} is not within the network"
        assert each.prefixlen <= 27, f"{each} is smaller than a /27"
        assert not any(each.overlaps(other) for other in ranges[:index]), f"{each} overlaps another subnet"
    return True


_PLACES = {
    "dns": "168.63.129.16",
    "internet": "203.0.113.7",
    "peered": "10.99.0.1",
    "load balancer": "AzureLoadBalancer",
}


def _decides(rule: Any, source: str, target: str, port: str, space: list[Any]) -> bool:
    def covers(prefix: str, address: str) -> bool:
        if prefix in ("*", address):
            return True
        if prefix == "VirtualNetwork":  # as Azure defines it, with peered networks and the address of the host
            here = address.replace(".", "").isdigit() and any(ipaddress.ip_address(address) in each for each in space)
            return here or address in (_PLACES["peered"], _PLACES["dns"], _PLACES["load balancer"])
        return "/" in prefix and address[0].isdigit() and ipaddress.ip_address(address) in ipaddress.ip_network(prefix)

    return (
        covers(rule.sourceAddressPrefix, source)
        and covers(rule.destinationAddressPrefix, target)
        and rule.sourcePortRange == "*"
        and rule.destinationPortRange in ("*", port)
        and rule.protocol in ("*", "Tcp")
    )


def _allowed(rules: list[Any], direction: str, source: str, target: str, port: str, space: list[Any]) -> bool:
    """Whether a connection is allowed by the first rule that is about it, or else by Azure's own rules."""
    mine = sorted((each.properties for each in rules), key=lambda each: each.priority)
    assert len({(each.priority, each.direction) for each in mine}) == len(mine), "priorities differ"
    for rule in mine:
        if rule.direction == direction and _decides(rule, source, target, port, space):
            return bool(rule.access == "Allow")
    return direction == "Outbound"


def _reached(rules: list[Any], subnets: Mapping[str, str]) -> dict[str, set[str]]:
    """Returns what a worker reaches, with the ports; `*` for any."""
    space = [ipaddress.ip_network(each) for each in subnets.values()]
    worker = str(ipaddress.ip_network(subnets["workers"])[5])
    targets = {**{name: str(ipaddress.ip_network(each)[6]) for name, each in subnets.items()}, **_PLACES}
    ports = ("443", "53", "5671", "22")
    found = {
        name: {port for port in ports if _allowed(rules, "Outbound", worker, address, port, space)}
        for name, address in targets.items()
        if name != "load balancer"
    }
    return {name: {"*"} if len(open_) == len(ports) else open_ for name, open_ in found.items() if open_}


def _reaching(rules: list[Any], subnets: Mapping[str, str]) -> set[str]:
    """Returns who reaches a worker."""
    space = [ipaddress.ip_network(each) for each in subnets.values()]
    worker = str(ipaddress.ip_network(subnets["workers"])[5])
    sources = {**{name: str(ipaddress.ip_network(each)[6]) for name, each in subnets.items()}, **_PLACES}
    return {name for name, each in sources.items() if _allowed(rules, "Inbound", each, worker, "443", space)} - {"dns"}


def function_names() -> set[str]:
    """Returns the names of the app's functions."""
    text = "".join(path.read_text() for path in (ROOT / "functions").rglob("*.py"))
    return set(re.findall(r'(?:function_name|Body: )\(\s*"([a-z-]+)"', text))


def _ready(groups: list[Any], p: SimpleNamespace) -> bool:
    """Whether groups of always ready instances exist, and are no more than there may be."""
    known = {"http", *(f"function:{each}" for each in function_names())}
    for each in groups:
        assert each.name in known, f"there is no {each.name}"
        assert each.instanceCount >= (2 if p.zoneRedundant else 1), f"{each.name}: one a zone"
    assert sum(each.instanceCount for each in groups) <= p.maximumInstanceCount, "more are ready than there may be"
    return True


def _largest_body(app: SimpleNamespace) -> int:
    """Returns the bytes of the largest body that an app takes."""
    relayed = int(given("ARTIFACT_RELAY_LIMIT_BYTES", app))
    return relayed if app.serves == "uploads" else max(MAX_BODY, relayed)


def _roomy(app: SimpleNamespace, settings: _Space) -> bool:
    """Whether an instance has the memory for all bodies that the platform gives it at a time."""
    instance = Instance(memory_mb=app.instanceMemoryMB, concurrency=app.httpConcurrency, settings=vars(settings))
    assert instance.shortage() is None, instance.shortage()
    return True


def _worker_reads(env: list[Any], queue: str, size: SimpleNamespace, root_url: str) -> bool:
    """Whether a worker starts with its variables, as the client that `worker-client create` makes."""
    given_ = {each.name: getattr(each, "value", "a secret") for each in env}
    try:
        options = parse([], given_)
    except SystemExit as refused:
        raise AssertionError("the worker refuses its variables") from refused
    assert options.root_url == root_url
    assert options.task_queue_id == queue
    assert options.credentials["clientId"] == worker_client_id(queue)
    assert f"queue:worker-id:{options.worker_group}/*" in worker_scopes(queue, WORKER_GROUP, signed_polling=False)
    assert options.poll_mode == "claim-work", "it has no scope for signed URLs"
    assert options.idle_timeout == size.idleTimeout > 0, "a worker that never ends never scales to zero"
    read = {f"WORKER_{each.name.removeprefix('worker_').upper()}" for each in fields(Options) if each.metadata}
    unread = {each for each in given_ if each.startswith("WORKER_")} - read
    assert not unread, f"nothing reads {unread}"
    return True


def unknown_names(query: str) -> set[str]:
    """Returns names in a query that are neither columns of its table nor made by the query, and labels that no metric
    has."""
    table = query.partition("|")[0].strip()
    if table not in COLUMNS:
        return {table}
    text = re.sub(r'"[^"]*"', '""', query.partition("|")[2])
    made = set(re.findall(r"\b(\w+) =(?!=)", text))
    text = re.sub(r"\.\w+|\b\d\w*|\b\w+(?=\()", "", text)
    metrics = {each.name: set(each.labels) for each in INSTRUMENTS}
    named = set(re.findall(r'"(queue_\w+)"', query))
    labels = {label for name in named for label in metrics.get(name, ())} | OF_THE_HOST.get(table, set())
    unknown = set(re.findall(r"\b[A-Za-z_]\w*", text)) - made - COLUMNS[table] - _WORDS
    return unknown | (named - metrics.keys()) | (set(re.findall(r"Properties\.(\w+)", query)) - labels)


def _columns_exist(query: str) -> bool:
    assert not unknown_names(query), f"there is no {unknown_names(query)}"
    assert not re.search(r"(?<!coalesce\()\bMax\b", query), "gauges have a value, and no maximum"
    return True


_FUNCTIONS: dict[str, Any] = {
    "json": json,
    "re": re,
    "guid": guid,
    "timedelta": timedelta,
    "duration": duration,
    "given": given,
    "secret_names": secret_names,
    "lifecycle": _lifecycle,
    "notifier_reads": _notifier_reads,
    "TOPICS": TOPICS,
    "TASK_TOPICS": TASK_TOPICS,
    "LAST_DELIVERY": LAST_DELIVERY,
    "PAUSE": PAUSE,
    "PLATFORM": PLATFORM,
    "accepted": _accepted,
    "fits": _fits,
    "reached": _reached,
    "reaching": _reaching,
    "ready": _ready,
    "largest_body": _largest_body,
    "roomy": _roomy,
    "columns_exist": _columns_exist,
    "REPEATS_RECOGNISED": REPEATS_RECOGNISED,
    "longest_url": max(poll_urls.LIFE, reading.LIFE, LONGEST_UPLOAD) + SIGNED_URL_CLOCK_SKEW,
}


def kind_of(resource: Resource) -> str:
    """Returns a resource's type; the settings of another program than the Queue have a section of their own."""
    notifies = resource.type == "Microsoft.Web/sites/config" and "-notify-" in resource.name
    return f"{resource.type}.notifier" if notifies else resource.type


def differences(deployed: Deployed, parameters: Mapping[str, Any], infra: Path) -> Iterator[str]:
    """Yields where a deployment is not what deployed.txt says, with the reason that stands there."""
    said = Said(deployed, parameters, infra)
    by_type: dict[str, list[Resource]] = {}
    for each in deployed.all_resources():
        by_type.setdefault(kind_of(each), []).append(each)
    sections = {kind: (names, found) for kind, names, found in rows()}
    for kind in by_type.keys() - sections.keys():
        yield f"{kind} is deployed, and deployed.txt does not say what for"
    for kind, (names, of_kind) in sections.items():
        there = by_type.get(kind, [])
        labels = [_label(each, said) for each in there]
        wanted = list(eval(names, dict(said)))
        if sorted(labels) != sorted(wanted):
            gone, more = sorted(set(wanted) - set(labels)), sorted(set(labels) - set(wanted))
            yield f"{kind}: {gone or 'none'} is not deployed, and {more or 'none'} is, which should not be"
        for resource, label in zip(there, labels, strict=True):
            for text in _of_resource(resource, label, of_kind, said):
                yield f"{kind.partition('/')[2]} {label}: {text}"


def _label(resource: Resource, said: Said) -> str:
    """Returns a resource's name; for a role assignment, who may do what on what."""
    if resource.type != ROLE:
        return resource.name
    properties = resource.body["properties"]
    who = {said["operator"]: "operator"}
    for name, label in (
        (said["n"].identity, "app"),
        (said["n"].deploymentIdentity, "packages"),
        (said["n"].notifyIdentity, "notifier"),
    ):
        who[answer(IDENTITY, name, "properties.principalId") or ""] = label
    for name in said["pools"].values():
        who[answer(IDENTITY, f"id-{name}", "properties.principalId") or ""] = name
    role = str(properties["roleDefinitionId"]).rpartition("/")[2]
    at = resource.id.partition("/providers/Microsoft.Authorization/")[0].removesuffix("/subscriptions/notify")
    scope = at.rpartition("/")[2]
    return f"{who.get(str(properties['principalId']), 'somebody')} {ROLE_IDS.get(role, role)} {scope}"


def _of_resource(resource: Resource, label: str, of_kind: list[tuple[str, str, str]], said: Said) -> Iterator[str]:
    given = as_given(resource.body)
    body = _spaced(given)
    names = {**said, "r": SimpleNamespace(name=label, id=resource.id)}
    covered = (
        {"location", "tags"} if resource.type != ROLE else {"properties.principalId", "properties.roleDefinitionId"}
    )
    location = "global" if any(path == "location" for path, *_ in of_kind) else said["g"].location
    if "location" in resource.body and resource.body["location"] != location:
        yield f"location is {resource.body['location']!r}, not {location!r}"
    tags = {**said["g"].tags, "azd-env-name": said["g"].environmentName}
    for name, value in (tags if "tags" in resource.body else {}).items():
        if resource.body["tags"].get(name) != value:
            yield f"the tag {name} is not {value!r}: azd and bills find all of a deployment by it"
    for path, expression, why in of_kind:
        for where, value, item, key in _at(body, path):
            if path.endswith("*") and where in covered:
                continue
            covered.add(where)
            try:
                holds, found = _holds(expression, value, {**names, "item": item, "key": key})
            except (
                AssertionError,
                AttributeError,
                KeyError,
                IndexError,
                TypeError,
                ValueError,
                StopIteration,
            ) as error:
                holds, found = False, f"{_shown(value)} ({str(error) or type(error).__name__})"
            if not holds:
                yield f"{where} is {found}: {why}"
    for path, _ in _leaves(given):
        if path not in ("name",) and not any(
            path == each or path.startswith((f"{each}.", f"{each}[")) for each in covered
        ):
            yield f"{path} is set, and deployed.txt does not say what for"


def _holds(expression: str, value: Any, names: dict[str, Any]) -> tuple[bool, str]:
    if expression == "...":
        return True, ""
    result = eval(expression, {**names, "_": value})
    if re.search(r"(?<![\w'\"])_(?![\w'\"])", expression):
        return bool(result), f"{_shown(value)}, for which does not hold: {expression}"
    found = _unspaced(value)
    return found == result, f"{_shown(value)}, not {result!r}"


def _shown(value: Any) -> str:
    text = repr(_unspaced(value))
    return text if len(text) < 200 else f"{text[:200]}…"


def _at(value: Any, path: str, where: str = "", item: Any = None) -> Iterator[tuple[str, Any, Any, str]]:
    """Yields the values at a path, with their own path, the item of a list that they are in, and their key."""
    word, _, rest = path.partition(".")
    name, bracket, index = word.partition("[")
    inside = f"{where}.{name}".removeprefix(".")
    if name == "*":
        for key, each in vars(value).items():
            yield f"{where}.{key}", each, item, key
        return
    found = getattr(value, name, None)
    if found is None and rest and hasattr(value, f"{name}.{rest}"):  # a name with a dot in it
        yield f"{inside}.{rest}", getattr(value, f"{name}.{rest}"), item, rest
    elif bracket and isinstance(found, list):
        for at, each in enumerate(found):
            if index in ("*]", f"{at}]"):
                if rest:
                    yield from _at(each, rest, f"{inside}[{at}]", each)
                else:
                    yield f"{inside}[{at}]", each, item, name
    elif rest and found is not None:
        yield from _at(found, rest, inside, item)
    else:
        yield f"{where}.{path}".removeprefix("."), None if rest else found, item, name


def _spaced(value: Any) -> Any:
    """Turns dictionaries into objects with attributes, which expressions read more easily."""
    if isinstance(value, dict):
        if all(isinstance(key, str) and re.fullmatch(r"[\w.-]+", key) for key in value):
            return _Space(**{key: _spaced(each) for key, each in value.items()})
        return {key: _unspaced(_spaced(each)) for key, each in value.items()}
    return [_spaced(each) for each in value] if isinstance(value, list) else value


class _Space(SimpleNamespace):
    """An object that is also compared with dictionaries, and read by keys."""

    def __eq__(self, other: object) -> bool:
        return bool(_unspaced(self) == _unspaced(other))

    __hash__ = None

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def items(self) -> Any:
        """Returns the items, as a dictionary does."""
        return vars(self).items()


def _unspaced(value: Any) -> Any:
    if isinstance(value, SimpleNamespace):
        return {key: _unspaced(each) for key, each in vars(value).items()}
    if isinstance(value, dict):
        return {key: _unspaced(each) for key, each in value.items()}
    return [_unspaced(each) for each in value] if isinstance(value, list) else value


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            if inner is not None:
                yield from _leaves(inner, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
