"""What must hold of the templates, whatever they deploy: no keys, known roles, safe defaults, parts that fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from local.state import ROOT
from shared.settings import Settings
from tests.infra import bicep

ROLES = {
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
    "db58b8e5-c6ad-4a2a-8342-4190687cbf4a": "Storage Blob Delegator",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "Storage Table Data Contributor",
    "7ee386e9-84f0-448e-80a6-f185f6533131": "Storage Queue Delegator",
    "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39": "Azure Service Bus Data Sender",
    "4633458b-17de-408a-874b-0445c86b69e6": "Key Vault Secrets User",
    "b86a8fe4-44ce-4948-aee5-eccb2c155cd7": "Key Vault Secrets Officer",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
}
"""The roles that anybody may get. None of them manages resources, and none reads keys of accounts."""
FOR_THE_APP = {
    "storageBlobDataOwner",
    "storageBlobDelegator",
    "storageQueueDataContributor",
    "storageTableDataContributor",
    "storageQueueDelegator",
    "serviceBusDataSender",
    "keyVaultSecretsUser",
    "monitoringMetricsPublisher",
}

_GUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_KEY_FUNCTIONS = {"list_keys", "listKeys", "list_account_sas", "list_service_sas", "list_secrets"}


@pytest.mark.parametrize("path", bicep.FILES, ids=lambda path: str(path.relative_to(bicep.INFRA)))
def test_every_file_parses(path: Path) -> None:
    tree = bicep.parsed(str(path.relative_to(bicep.INFRA)))
    assert tree["resources"] or tree["modules"]


def test_every_module_is_used_and_gets_exactly_its_parameters() -> None:
    used = set()
    for file, tree in bicep.trees().items():
        for name, module in tree.get("modules", {}).items():
            assert module["type"] == "local", f"{file}: {name} comes from elsewhere"
            target = ((bicep.INFRA / file).parent / module["detail"]["path"]).resolve().relative_to(bicep.INFRA)
            used.add(str(target))
            wanted = bicep.parsed(str(target))["parameters"]
            given = bicep.body(module["config"])["params"]
            required = {key for key, value in wanted.items() if value["default"] is None}
            assert required <= given.keys() <= wanted.keys(), f"{file}: {name}"
    assert used | {"main.bicep"} == bicep.trees().keys()


def test_every_parameter_and_variable_is_used() -> None:
    for path in bicep.FILES:
        text = re.sub(r"//.*|@description\(.*\)", "", path.read_text())
        for name in re.findall(r"^(?:param|var) (\w+)", text, re.MULTILINE):
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{path.name}: {name}"


def test_what_the_app_needs_of_other_modules_is_an_output() -> None:
    for file, tree in bicep.trees().items():
        text = (bicep.INFRA / file).read_text()
        for name, module in tree.get("modules", {}).items():
            target = ((bicep.INFRA / file).parent / module["detail"]["path"]).resolve().relative_to(bicep.INFRA)
            outputs = bicep.parsed(str(target)).get("outputs", {})
            assert set(re.findall(rf"\b{name}\.outputs\.(\w+)", text)) <= outputs.keys(), f"{file}: {name}"


def test_keys_of_accounts_are_read_in_one_place_that_is_off() -> None:
    with_keys = {file for file, tree in bicep.trees().items() if _KEY_FUNCTIONS & set(_called(file, tree))}
    assert with_keys == {"modules/storagekey.bicep"}
    users = [file for file in bicep.trees() if "storagekey.bicep" in (bicep.INFRA / file).read_text()]
    assert users == ["modules/keyvault.bicep"]
    module = bicep.parsed("modules/keyvault.bicep")["modules"]["storageKey"]["config"]
    assert "storageAccountName" in set(bicep.strings(module["condition"]))
    assert bicep.parsed("main.bicep")["parameters"]["signWithAccountKey"]["default"] is False


def _called(file: str, tree: Any) -> list[str]:
    # pycep knows functions, but takes a call of a resource's method for a property.
    text = (bicep.INFRA / file).read_text()
    return [*bicep.functions(tree), *re.findall(r"\b(list\w+)\(", text)]


def test_no_text_looks_like_a_secret() -> None:
    for path in [*bicep.INFRA.rglob("*.bicep"), *bicep.INFRA.rglob("*.json"), ROOT / "azure.yaml"]:
        text = path.read_text()
        assert not re.search(r"AccountKey=|SharedAccessKey=|[?&]sig=|[A-Za-z0-9+/]{60,}={0,2}", text), path.name


def test_secrets_are_secure_parameters_without_a_default() -> None:
    secure = {}
    for file, tree in bicep.trees().items():
        for name, parameter in tree["parameters"].items():
            if any(decorator["type"] == "secure" for decorator in parameter["decorators"]):
                secure[f"{file}: {name}"] = parameter["default"]
            else:
                assert not re.search(r"token$|keys?$|secret|password", name, re.IGNORECASE) or name in {
                    "signWithAccountKey",
                    "allowSharedKeys",
                    "acceptPreviousRootToken",
                }, f"{file}: {name}"
    names = {"rootAccessToken", "messageSigningKeys", "accessTokenKeys"}
    assert {key.rpartition(" ")[2] for key in secure} == names
    assert all(default in (None, "") for default in secure.values())


def test_no_output_is_a_secret() -> None:
    for file, tree in bicep.trees().items():
        for name, output in tree.get("outputs", {}).items():
            words = set(bicep.strings(output["value"]))
            assert not any(re.search(r"token|key(?!Vault)|connectionstring", word, re.IGNORECASE) for word in words), (
                f"{file}: {name}"
            )


def test_roles_are_those_of_the_list() -> None:
    known = bicep.document("roles.json")
    assert set(known.values()) == ROLES.keys()
    for file in bicep.trees():
        assert not _GUID.search((bicep.INFRA / file).read_text()), f"{file} has an id of its own"
    assignments = dict(bicep.resources("Microsoft.Authorization/roleAssignments"))
    assert {name.partition(":")[0] for name in assignments} == {"modules/roles.bicep"}
    for name, assignment in assignments.items():
        scopes = set(bicep.strings(assignment["scope"]))
        assert scopes & {"storage", "containers", "packages", "serviceBus", "vault", "insights"}, f"{name}: too wide"
    assert "ids." in (bicep.INFRA / "modules/roles.bicep").read_text()


def test_the_app_gets_its_roles_and_no_others() -> None:
    text = (bicep.INFRA / "modules/roles.bicep").read_text()
    app, _, operator = text.partition("resource operatorOnStorage")
    app = app.replace(app[app.index("var operatorStorageRoles") : app.index("resource storage")], "")
    app = app.replace(app[app.index("resource deploymentOnPackages") : app.index("resource appOnServiceBus")], "")
    assert set(re.findall(r"\bids\.(\w+)", app)) == FOR_THE_APP
    assert "appPrincipalId" not in operator


def test_the_app_cannot_write_the_container_that_it_is_deployed_from() -> None:
    """Blobs are its own container by container, and the package goes by another identity."""
    roles = (bicep.INFRA / "modules/roles.bicep").read_text()
    on_account = roles[roles.index("var appStorageRoles") : roles.index("var operatorStorageRoles")]
    assert "storageBlobData" not in on_account
    entities = bicep.document("entities.json")
    (package,) = entities["platformContainers"]
    assert "concat(entities.containers, entities.hostContainers)" in roles
    assert package not in {*entities["containers"], *entities["hostContainers"]}
    ((_, app),) = bicep.resources("Microsoft.Web/sites")
    storage = app["properties"]["functionAppConfig"]["deployment"]["storage"]
    assert package in "".join(bicep.strings(storage["value"]))
    assert storage["authentication"]["userAssignedIdentityResourceId"] == "deploymentIdentityId"
    assert "deploymentIdentity.outputs.clientId" not in (bicep.INFRA / "main.bicep").read_text(), "no code is told"


def test_who_reads_secrets_is_recorded() -> None:
    ((name, audit),) = bicep.resources("Microsoft.Insights/diagnosticSettings")
    assert name.startswith("modules/keyvault.bicep")
    assert audit["scope"] == "vault"
    assert audit["properties"]["logs"] == [{"categoryGroup": "audit", "enabled": True}]


def test_signed_urls_live_no_longer_than_the_policy_of_the_account_expects() -> None:
    ((_, account),) = bicep.resources("Microsoft.Storage/storageAccounts")
    assert account["properties"]["allowedCopyScope"] == "AAD"
    days, _, clock = account["properties"]["sasPolicy"]["sasExpirationPeriod"].partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    allowed = ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    for setting in ("poll_url_seconds", "artifact_put_seconds", "artifact_get_seconds"):
        bounds = [each.le for each in Settings.model_fields[setting].metadata if hasattr(each, "le")]
        assert bounds, setting
        assert max(bounds) < allowed


def test_topics_take_a_tilde_for_a_slash_and_know_duplicates() -> None:
    ((_, topic),) = bicep.resources("Microsoft.ServiceBus/namespaces/topics")
    assert topic["name"]["function"] == {
        "type": "replace",
        "parameters": {"original_string": "${topicPrefix}${topic}", "old_string": "/", "new_string": "~"},
    }
    assert topic["properties"]["requiresDuplicateDetection"] is True


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Microsoft.Storage/storageAccounts", "allowBlobPublicAccess", "publicArtifacts"),
        ("Microsoft.Storage/storageAccounts", "allowSharedKeyAccess", "allowSharedKeys"),
        ("Microsoft.Storage/storageAccounts", "defaultToOAuthAuthentication", True),
        ("Microsoft.Storage/storageAccounts", "minimumTlsVersion", "TLS1_2"),
        ("Microsoft.Storage/storageAccounts", "supportsHttpsTrafficOnly", True),
        ("Microsoft.ServiceBus/namespaces", "disableLocalAuth", True),
        ("Microsoft.ServiceBus/namespaces", "minimumTlsVersion", "1.2"),
        ("Microsoft.KeyVault/vaults", "enableRbacAuthorization", True),
        ("Microsoft.KeyVault/vaults", "enablePurgeProtection", True),
        ("Microsoft.Insights/components", "DisableLocalAuth", True),
        ("Microsoft.Web/sites", "httpsOnly", True),
        ("Microsoft.Web/sites", "keyVaultReferenceIdentity", "identityId"),
        ("Microsoft.Web/sites/basicPublishingCredentialsPolicies", "allow", False),
    ],
)
def test_doors_are_closed(kind: str, path: str, value: object) -> None:
    found = list(bicep.resources(kind))
    assert found
    for name, resource in found:
        assert resource["properties"][path] == value, name


def test_what_opens_a_door_is_off_by_default() -> None:
    parameters = bicep.parsed("main.bicep")["parameters"]
    for name in ("signWithAccountKey", "publicArtifacts", "acceptPreviousRootToken"):
        assert parameters[name]["default"] is False, name
    assert parameters["operatorPrincipalId"]["default"] == ""


def test_the_app_runs_on_flex_consumption_with_its_concurrency_set() -> None:
    ((_, plan),) = bicep.resources("Microsoft.Web/serverfarms")
    assert plan["sku"] == {"tier": "FlexConsumption", "name": "FC1"}
    ((_, app),) = bicep.resources("Microsoft.Web/sites")
    config = app["properties"]["functionAppConfig"]
    assert config["runtime"] == {"name": "python", "version": "3.13"}
    # Python's default there is one request an instance: every long poll would take a whole one.
    concurrency = config["scaleAndConcurrency"]["triggers"]["http"]["perInstanceConcurrency"]
    assert list(bicep.strings(concurrency)) == ["property_accessor", "scale", "httpConcurrency"]
    assert config["deployment"]["storage"]["authentication"]["type"] == "UserAssignedIdentity"


def test_the_parameters_file_sets_parameters_that_exist() -> None:
    parameters = bicep.parsed("main.bicep")["parameters"]
    given = bicep.document("main.parameters.json")["parameters"]
    assert given.keys() == parameters.keys()
    for name, parameter in given.items():
        value = parameter["value"]
        default = parameters[name]["default"]
        if isinstance(value, str):
            match = re.fullmatch(r"\$\{([A-Z_]+)(?:=(.*))?\}", value)
            assert match is not None, name
            assert default is None or match[2] == str(default).lower() or match[2] == default, name
        else:
            assert value == default, name


def test_names_have_abbreviations() -> None:
    abbreviations = bicep.document("abbreviations.json")
    assert set(bicep.parsed("main.bicep")["variables"]["generated"]["value"]) == abbreviations.keys()
    taken = set(re.findall(r"resourceNames\.(\w+)", (bicep.INFRA / "main.bicep").read_text()))
    assert taken == abbreviations.keys()
    for name, prefix in abbreviations.items():
        # uniqueString has 13 characters; the shortest limit is that of storage accounts and vaults.
        assert len(prefix) + 13 <= 24 or name == "resourceGroup"
