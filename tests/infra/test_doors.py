"""Who gets in, whatever is deployed: no keys, known roles, closed doors, secrets that stay secret."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import timedelta
from urllib.parse import quote

import pytest

from shared.base.protocol import SIGNED_URL_CLOCK_SKEW
from shared.queue.artifacts import reading
from shared.queue.artifacts.rules import LONGEST_UPLOAD
from shared.queue.claims import poll_urls
from tests.infra import templates
from tools.admin.worker_clients import WORKER_GROUP, secret_names, worker_client_id, worker_scopes
from tools.local.state import ROOT
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate
from tools.local.templates.expressions import Text
from worker.options import Options, parse

ROLES = {
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
    "db58b8e5-c6ad-4a2a-8342-4190687cbf4a": "Storage Blob Delegator",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "Storage Table Data Contributor",
    "7ee386e9-84f0-448e-80a6-f185f6533131": "Storage Queue Delegator",
    "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39": "Azure Service Bus Data Sender",
    "090c5cfd-751d-490a-894a-3ce6f1109419": "Azure Service Bus Data Owner",
    "4633458b-17de-408a-874b-0445c86b69e6": "Key Vault Secrets User",
    "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": "Key Vault Secrets Officer",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
    "43d0d8ad-25c7-4714-9337-8ba259a9fe05": "Monitoring Reader",
    "7f951dda-4ed3-4680-a7ca-43fe172d538d": "AcrPull",
}
"""The roles that anybody may get. None of them manages resources, and none reads keys of accounts."""
FOR_THE_APP = {
    "Storage Blob Data Owner",
    "Storage Blob Delegator",
    "Storage Queue Data Contributor",
    "Storage Table Data Contributor",
    "Storage Queue Delegator",
    "Azure Service Bus Data Sender",
    "Key Vault Secrets User",
    "Monitoring Metrics Publisher",
}
FOR_THE_OPERATOR = {
    "Storage Blob Data Contributor",
    "Storage Queue Data Contributor",
    "Storage Table Data Contributor",
    "Azure Service Bus Data Owner",
    "Key Vault Secrets Officer",
    "Monitoring Reader",
}
SCENARIO = pytest.mark.parametrize("scenario", templates.SCENARIOS)
_GUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def _roles(scenario: str) -> dict[str, set[tuple[str, str]]]:
    """What each principal may do: roles, and the names of what they are about."""
    deployed = templates.deployed(scenario)
    principals = {
        templates.deployed(scenario).modules[module].outputs["principalId"]: name
        for module, name in (("identity", "app"), ("deploymentIdentity", "deployment"))
    }
    for name, module in deployed.modules.items():
        if name.startswith("workerPools["):
            principals[module.outputs["identityPrincipalId"]] = name
    found: dict[str, set[tuple[str, str]]] = {}
    for each in deployed.all_resources():
        if each.type == "Microsoft.Authorization/roleAssignments":
            properties = each.body["properties"]
            scope = each.id.partition("/providers/Microsoft.Authorization/")[0]
            assert "/providers/" in scope, f"{each.place} is about more than one resource"
            role = ROLES[properties["roleDefinitionId"].rpartition("/")[2]]
            who = principals.get(properties["principalId"], properties["principalId"])
            found.setdefault(who, set()).add((role, scope.rpartition("/")[2]))
    return found


@SCENARIO
def test_the_app_gets_its_roles_and_no_others(scenario: str) -> None:
    assert {role for role, _ in _roles(scenario)["app"]} == FOR_THE_APP


def test_the_operator_gets_roles_for_what_the_handbook_does() -> None:
    roles = _roles("large, closed")
    assert {role for role, _ in roles[scenarios.OPERATOR]} == FOR_THE_OPERATOR
    read = {scope[:4] for role, scope in roles[scenarios.OPERATOR] if role == "Monitoring Reader"}
    assert len(read) == 2, "the workspace, and the workbook"
    workers = {name for name in roles if name.startswith("workerPools[")}
    assert roles.keys() - workers == {"app", "deployment", scenarios.OPERATOR}


def test_a_task_queues_workers_reach_their_own_two_secrets_and_images() -> None:
    roles = _roles("large, closed")
    for name, task_queue_id in (("workerPools[0]", "my-team/linux"), ("workerPools[1]", "My_Team/gpu")):
        wanted = {("Key Vault Secrets User", secret) for secret in secret_names(task_queue_id)}
        assert roles[name] == {*wanted, ("AcrPull", "myworkers")}


@SCENARIO
def test_what_a_worker_is_given_is_what_it_reads_and_what_its_client_may(scenario: str) -> None:
    for job in templates.resources("Microsoft.App/jobs", scenario):
        (container,) = job.body["properties"]["template"]["containers"]
        given = {each["name"]: each.get("value", "a secret") for each in container["env"]}
        options = parse([], given)
        assert f"worker/{options.task_queue_id}" == options.credentials["clientId"]
        assert worker_client_id(options.task_queue_id) == options.credentials["clientId"]
        group = f"queue:worker-id:{options.worker_group}/*"
        assert group in worker_scopes(options.task_queue_id, WORKER_GROUP, signed_polling=False)
        assert options.poll_mode == "claim-work", "it has no scope for signed URLs"
        assert options.idle_timeout, "a worker that never ends never scales to zero"
        unread = {name for name in given if name.startswith("WORKER_")} - worker_variables()
        assert not unread
        rules = job.body["properties"]["configuration"]["eventTriggerConfig"]["scale"]["rules"]
        assert rules[0]["metadata"]["url"].endswith(f"/{quote(options.task_queue_id, safe='')}/load")


def worker_variables() -> set[str]:
    """The variables that the worker's options may come from."""
    return {f"WORKER_{each.name.removeprefix('worker_').upper()}" for each in fields(Options) if each.metadata}


DEPLOYER = "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"


@pytest.mark.parametrize(
    ("environment", "operator"),
    [
        ({}, None),
        ({"AZURE_PRINCIPAL_ID": DEPLOYER, "AZURE_PRINCIPAL_TYPE": "User"}, DEPLOYER),
        ({"AZURE_PRINCIPAL_ID": DEPLOYER, "AZURE_PRINCIPAL_TYPE": "ServicePrincipal"}, None),
        ({"AZURE_PRINCIPAL_ID": DEPLOYER, "AZURE_PRINCIPAL_TYPE": "User", "QUEUE_OPERATOR_ID": "none"}, None),
        (
            {
                "AZURE_PRINCIPAL_ID": DEPLOYER,
                "AZURE_PRINCIPAL_TYPE": "User",
                "QUEUE_OPERATOR_ID": scenarios.OPERATOR,
                "QUEUE_OPERATOR_TYPE": "Group",
            },
            scenarios.OPERATOR,
        ),
    ],
)
def test_the_person_who_deploys_is_the_operator_unless_another_is_named(
    environment: dict[str, str], operator: str | None
) -> None:
    deployed = evaluate({**scenarios.BARE, **environment})
    people = {
        each.body["properties"]["principalId"]: each.body["properties"]["principalType"]
        for each in deployed.all_resources()
        if each.type == "Microsoft.Authorization/roleAssignments"
        and each.body["properties"]["principalType"] != "ServicePrincipal"
    }
    kind = "Group" if operator == scenarios.OPERATOR else "User"
    assert people == ({operator: kind} if operator else {})


@SCENARIO
def test_the_app_cannot_write_the_container_that_it_is_deployed_from(scenario: str) -> None:
    """Blobs are its own container by container, and the package goes by another identity."""
    roles = _roles(scenario)
    containers = {scope for role, scope in roles["app"] if role == "Storage Blob Data Owner"}
    entities = templates.document("entities.json")
    assert containers == {*entities["containers"], *entities["hostContainers"]}
    (package,) = entities["platformContainers"]
    assert roles["deployment"] == {("Storage Blob Data Contributor", package)}
    storage = templates.resource("Microsoft.Web/sites", scenario)["properties"]["functionAppConfig"]["deployment"][
        "storage"
    ]
    assert storage["authentication"]["userAssignedIdentityResourceId"].rpartition("/")[2].startswith("id-deploy-")
    deployment = templates.deployed(scenario).modules["deploymentIdentity"].outputs["clientId"]
    assert deployment not in templates.settings(scenario).values(), "no code knows it"


def test_ids_of_roles_are_in_one_file() -> None:
    assert set(templates.document("roles.json").values()) == ROLES.keys()
    for path in templates.FILES:
        assert not _GUID.search(path.read_text()), f"{path.name} has an id of its own"


@SCENARIO
def test_keys_of_accounts_are_read_only_where_that_is_asked_for(scenario: str) -> None:
    read = [each for module in templates.deployed(scenario).everything() for each in module.keys_read]
    account = templates.resource("Microsoft.Storage/storageAccounts", scenario)["properties"]
    asked = templates.SCENARIOS[scenario].get("QUEUE_SIGN_WITH_ACCOUNT_KEY") == "true"
    assert [each.partition(":")[0] for each in read] == (["storagekey.bicep"] if asked else [])
    assert account["allowSharedKeyAccess"] is asked


def test_no_text_looks_like_a_secret() -> None:
    for path in [*templates.INFRA.rglob("*.bicep"), *templates.INFRA.rglob("*.json"), ROOT / "azure.yaml"]:
        text = path.read_text()
        assert not re.search(r"AccountKey=|SharedAccessKey=|[?&]sig=|[A-Za-z0-9+/]{60,}={0,2}", text), path.name


def test_secrets_are_secure_parameters_without_a_default() -> None:
    secure: set[str] = set()
    for path in templates.FILES:
        for parameter in templates.file(str(path.relative_to(templates.INFRA))).of("param"):
            if parameter.decorator("secure"):
                secure.add(parameter.name)
                assert parameter.value is None or (isinstance(parameter.value, Text) and parameter.value.plain == "")
            else:
                assert not re.search(r"token$|keys?$|secret|password", parameter.name, re.IGNORECASE) or (
                    parameter.target == "bool"
                ), f"{path.name}: {parameter.name}"
    assert secure == {"rootAccessToken", "messageSigningKeys", "accessTokenKeys"}


@SCENARIO
def test_no_output_is_a_secret(scenario: str) -> None:
    for module in templates.deployed(scenario).everything():
        for name, value in module.outputs.items():
            assert not any(secret in str(value) for secret in scenarios.SECRETS.values()), f"{module.name}: {name}"
            assert "InstrumentationKey" not in str(value), f"{module.name}: {name}"


@SCENARIO
def test_who_reads_secrets_is_recorded(scenario: str) -> None:
    settings = templates.resources("Microsoft.Insights/diagnosticSettings", scenario)
    (audit,) = (each for each in settings if "/Microsoft.KeyVault/vaults/" in each.id)
    assert audit.body["properties"]["logs"] == [{"categoryGroup": "audit", "enabled": True}]


def test_signed_urls_live_no_longer_than_the_policy_of_the_account_expects() -> None:
    account = templates.resource("Microsoft.Storage/storageAccounts")["properties"]
    assert account["allowedCopyScope"] == "AAD"
    days, _, clock = account["sasPolicy"]["sasExpirationPeriod"].partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    allowed = ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    longest = max(poll_urls.LIFE, reading.LIFE, LONGEST_UPLOAD)
    assert longest + SIGNED_URL_CLOCK_SKEW < timedelta(seconds=allowed)


@SCENARIO
def test_topics_take_a_tilde_for_a_slash_and_know_duplicates(scenario: str) -> None:
    prefix = templates.SCENARIOS[scenario].get("QUEUE_TOPIC_PREFIX", "")
    topics = {
        each.name.partition("/")[2]: each.body["properties"]
        for each in templates.resources("Microsoft.ServiceBus/namespaces/topics", scenario)
    }
    assert set(topics) == {
        f"{prefix}{name}".replace("/", "~") for name in templates.document("entities.json")["topics"]
    }
    assert all(each["requiresDuplicateDetection"] is True for each in topics.values())


@SCENARIO
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Microsoft.Storage/storageAccounts", "allowCrossTenantReplication", False),
        ("Microsoft.Storage/storageAccounts", "minimumTlsVersion", "TLS1_2"),
        ("Microsoft.Storage/storageAccounts", "supportsHttpsTrafficOnly", True),
        ("Microsoft.ServiceBus/namespaces", "disableLocalAuth", True),
        ("Microsoft.ServiceBus/namespaces", "minimumTlsVersion", "1.2"),
        ("Microsoft.KeyVault/vaults", "enableRbacAuthorization", True),
        ("Microsoft.KeyVault/vaults", "enableSoftDelete", True),
        ("Microsoft.KeyVault/vaults", "enablePurgeProtection", True),
        ("Microsoft.Insights/components", "DisableLocalAuth", True),
        ("Microsoft.Web/sites", "httpsOnly", True),
    ],
)
def test_doors_are_closed(scenario: str, kind: str, name: str, value: object) -> None:
    assert templates.resource(kind, scenario)["properties"][name] == value


@SCENARIO
def test_old_tls_is_refused(scenario: str) -> None:
    site = templates.resource("Microsoft.Web/sites", scenario)["properties"]["siteConfig"]
    assert (site["minTlsVersion"], site["scmMinTlsVersion"]) == ("1.2", "1.2")


@SCENARIO
@pytest.mark.parametrize("kind", ["Microsoft.Storage/storageAccounts", "Microsoft.KeyVault/vaults"])
def test_a_closed_door_refuses_whom_no_rule_names(scenario: str, kind: str) -> None:
    properties = templates.resource(kind, scenario)["properties"]
    closed = "closed" in scenario
    assert properties["publicNetworkAccess"] == ("Disabled" if closed else "Enabled")
    assert properties["networkAcls"]["defaultAction"] == ("Deny" if closed else "Allow")


@SCENARIO
def test_passwords_do_not_publish(scenario: str) -> None:
    policies = list(templates.resources("Microsoft.Web/sites/basicPublishingCredentialsPolicies", scenario))
    assert {each.name.rpartition("/")[2] for each in policies} == {"ftp", "scm"}
    assert all(each.body["properties"] == {"allow": False} for each in policies)


def test_what_opens_a_door_is_off_by_default() -> None:
    account = templates.resource("Microsoft.Storage/storageAccounts", "small, bare")["properties"]
    assert (account["allowBlobPublicAccess"], account["allowSharedKeyAccess"]) == (False, False)
    containers = templates.resources("Microsoft.Storage/storageAccounts/blobServices/containers", "small, bare")
    assert {each.body["properties"]["publicAccess"] for each in containers} == {"None"}
    assert templates.raw_settings("small, bare")["ROOT_ACCESS_TOKEN_PREVIOUS"] == ""


CLOSING = [
    {"QUEUE_APP_PUBLIC_ACCESS": "Disabled"},
    {"QUEUE_STORAGE_PUBLIC_ACCESS": "Disabled"},
    {"QUEUE_KEY_VAULT_PUBLIC_ACCESS": "Disabled"},
    {"QUEUE_SERVICEBUS_PUBLIC_ACCESS": "Disabled", "QUEUE_PROFILE": "large"},
]


@pytest.mark.parametrize("closing", CLOSING, ids=lambda each: next(iter(each)))
def test_a_closed_door_leaves_the_app_a_way_in(closing: dict[str, str]) -> None:
    """Flex Consumption has no addresses of its own: behind a closed door it needs the network and an endpoint."""
    deployed = evaluate({**scenarios.BARE, **closing})
    assert deployed.all_findings() == []
    (app,) = (each for each in deployed.all_resources() if each.type == "Microsoft.Web/sites")
    assert app.body["properties"]["virtualNetworkSubnetId"]
    groups = {
        connection["properties"]["groupIds"][0]: connection["properties"]["privateLinkServiceId"]
        for each in deployed.all_resources()
        if each.type == "Microsoft.Network/privateEndpoints"
        for connection in each.body["properties"]["privateLinkServiceConnections"]
    }
    assert groups.keys() >= {"blob", "queue", "table", "vault"}
    assert ("sites" in groups) == ("QUEUE_APP_PUBLIC_ACCESS" in closing)
    assert ("namespace" in groups) == (closing.get("QUEUE_PROFILE") == "large")


def test_open_doors_need_no_network() -> None:
    types = {
        each.type for each in evaluate({**scenarios.BARE, "QUEUE_SERVICEBUS_PUBLIC_ACCESS": "Disabled"}).all_resources()
    }
    assert not {each for each in types if each.startswith("Microsoft.Network/")}
