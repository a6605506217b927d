"""Checks that the app's settings name what is deployed beside it: account, namespace, topics, identity, telemetry.

A value can be well-formed, so that the app starts with it, and still name something else.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.local.templates.values import Deployed, Finding, Resource, Unknown, Value, answer

_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
_ROLE = "Microsoft.Authorization/roleAssignments"
CREDENTIAL = "managedidentity"
"""`AzureWebJobsStorage__credential` of an identity, to the letter (docs: identity-based connections)."""
Settings = dict[str, Value]


def problems(root: Deployed) -> Iterator[Finding]:
    """Settings of an app that name what belongs to something else, or what does not exist."""
    deployed = list(root.all_resources())
    for site in _of_type(deployed, "Microsoft.Web/sites"):
        yield from (Finding(site.place, text) for text in _identities(site, deployed))
        for settings in _of_type(deployed, "Microsoft.Web/sites/config"):
            if settings.id.startswith(f"{site.id}/"):
                yield from (Finding(settings.place, text) for text in _settings(settings, site, deployed))


def _identities(site: Resource, deployed: list[Resource]) -> Iterator[str]:
    """Secrets and packages are read by identities that the app has, and that have a role there."""
    properties = site.body["properties"]
    storage = properties["functionAppConfig"]["deployment"]["storage"]
    wanted = (
        ("secrets", properties.get("keyVaultReferenceIdentity"), "Microsoft.KeyVault/vaults", ""),
        (
            "packages",
            storage["authentication"].get("userAssignedIdentityResourceId"),
            "Microsoft.Storage/storageAccounts/blobServices/containers",
            str(storage["value"]).rpartition("/")[2],
        ),
    )
    for what, identity, kind, name in wanted:
        if identity not in site.body["identity"]["userAssignedIdentities"]:
            yield f"{what} are read by {identity}, an identity that the app does not have"
            continue
        principal = _of_identity(str(identity), "principalId")
        scopes = [each.id for each in _of_type(deployed, kind) if each.name.endswith(name)]
        roles = [each for each in _of_type(deployed, _ROLE) if each.body["properties"]["principalId"] == principal]
        if not any(role.id.startswith(f"{scope}/providers/{_ROLE}/") for role in roles for scope in scopes):
            yield f"{what} are read by {str(identity).rpartition('/')[2]}, which has no role there"


def _settings(settings: Resource, site: Resource, deployed: list[Resource]) -> Iterator[str]:
    given: Settings = settings.body["properties"]
    for name, wanted in _wanted(given, site).items():
        value = given.get(name, "")
        if value != wanted and not isinstance(value, Unknown):
            yield f"{name} has to be {wanted}, not {value}"
    account, namespace = given.get("STORAGE_ACCOUNT_NAME"), str(given.get("SERVICEBUS_NAMESPACE"))
    if account not in {each.name for each in _of_type(deployed, "Microsoft.Storage/storageAccounts")}:
        yield f"STORAGE_ACCOUNT_NAME is {account}, which is not deployed"
    if namespace.partition(".")[0] not in {each.name for each in _of_type(deployed, "Microsoft.ServiceBus/namespaces")}:
        yield f"SERVICEBUS_NAMESPACE is {namespace}, which is not deployed"
    prefix = str(given.get("TOPIC_PREFIX", "")).replace("/", "~")
    for topic in _of_type(deployed, "Microsoft.ServiceBus/namespaces/topics"):
        if not topic.name.rpartition("/")[2].startswith(prefix):
            yield f"the topic {topic.name} does not begin with TOPIC_PREFIX"
    if str(given.get("OTEL_SDK_DISABLED", "")).lower() == "true" or not given.get(
        "APPLICATIONINSIGHTS_CONNECTION_STRING"
    ):
        yield "without telemetry no alert fires: OTEL_SDK_DISABLED, APPLICATIONINSIGHTS_CONNECTION_STRING"


def _wanted(given: Settings, site: Resource) -> Settings:
    """The expected values of settings that are always the same, or follow from the account and from the identity that
    reads the secrets."""
    client = _of_identity(str(site.body["properties"].get("keyVaultReferenceIdentity")), "clientId")
    account = str(given.get("STORAGE_ACCOUNT_NAME"))
    return {
        "MANAGED_IDENTITY_CLIENT_ID": client,
        "AzureWebJobsDisableHomepage": "true",
        "AzureWebJobsStorage__credential": CREDENTIAL,
        "AzureWebJobsStorage__clientId": client,
        "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": f"ClientId={client};Authorization=AAD",
        **{
            f"AzureWebJobsStorage__{service}ServiceUri": answer(
                "Microsoft.Storage/storageAccounts", account, f"properties.primaryEndpoints.{service}"
            )
            for service in ("blob", "queue", "table")
        },
    }


def _of_identity(identity: str, name: str) -> str | None:
    return answer(_IDENTITY, identity.rpartition("/")[2], f"properties.{name}")


def _of_type(deployed: list[Resource], kind: str) -> Iterator[Resource]:
    return (each for each in deployed if each.type == kind)
