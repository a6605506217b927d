"""The app settings of a deployment, as far as they can be known here: templates evaluated with names of no meaning."""

from __future__ import annotations

import base64
from typing import Any

from tests.infra import bicep

PROFILES = ("small", "large")

_VALUES = {
    "TASKCLUSTER_ROOT_URL": "https://func-abc.azurewebsites.net",
    "ROOT_ACCESS_TOKEN": "root-token-of-the-tests-only-44",
    "ROOT_ACCESS_TOKEN_PREVIOUS": "",
    "MESSAGE_SIGNING_KEYS": "signing-key-of-the-tests-only-44",
    "ACCESS_TOKEN_KEYS": base64.urlsafe_b64encode(bytes(range(32))).decode(),
    "STORAGE_ACCOUNT_NAME": "stabc",
    "STORAGE_ACCOUNT_KEY": "",
    "SERVICEBUS_NAMESPACE": "sb-abc.servicebus.windows.net",
    "MANAGED_IDENTITY_CLIENT_ID": "00000000-0000-0000-0000-000000000000",
    "TOPIC_PREFIX": "",
    "PUBLIC_ARTIFACT_BASE_URL": "",
    "APP_VERSION": "v1",
    "APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=00000000-0000-0000-0000-000000000000",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": "ClientId=00000000-0000-0000-0000-000000000000;Authorization=AAD",
    "AzureWebJobsStorage__credential": "managedidentity",
    "AzureWebJobsStorage__clientId": "00000000-0000-0000-0000-000000000000",
    "AzureWebJobsStorage__blobServiceUri": "https://stabc.blob.core.windows.net/",
    "AzureWebJobsStorage__queueServiceUri": "https://stabc.queue.core.windows.net/",
    "AzureWebJobsStorage__tableServiceUri": "https://stabc.table.core.windows.net/",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0.01",
    "AzureFunctionsJobHost__extensions__queues__batchSize": "16",
    "AzureFunctionsJobHost__extensions__queues__newBatchThreshold": "8",
}
"""What app.bicep computes; references into the vault as the platform resolves them."""


def own_settings() -> dict[str, Any]:
    """What app.bicep sets itself: expressions, by name."""
    variables = bicep.parsed("modules/app.bicep")["variables"]
    return {**variables["ownSettings"]["value"], **variables["hostSettings"]["value"]}


def setting_names() -> set[str]:
    """All app settings that a deployment has."""
    properties = bicep.parsed("modules/app.bicep")["resources"]["settings"]["config"]["properties"]
    parts = list(properties["function"]["parameters"].values())
    assert parts[0]["function"]["parameters"]["file_path"] == "../settings.json"
    assert parts[2:] == ["settingOverrides", "ownSettings", "hostSettings"], "the app's own come last, so that they win"
    return {*bicep.document("settings.json"), *own_settings()}


def settings(profile: str) -> dict[str, str]:
    """The app settings with values."""
    assert own_settings().keys() == _VALUES.keys(), "give every setting that app.bicep computes a value here"
    scale = bicep.document(f"profiles/{profile}.json")
    assert scale["settings"].keys() <= bicep.document("settings.json").keys()
    return {**bicep.document("settings.json"), **scale["settings"], **_VALUES}
