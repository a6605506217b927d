"""Every setting that the code reads is set by the infrastructure, and the other way round."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from local import settings_docs
from local.state import ROOT
from shared.settings import Settings
from tests.infra import bicep, deployment

READ = {name.upper() for name in Settings.model_fields} - set(settings_docs.KEYS_INSTEAD_OF_IDENTITIES)
SECRETS = {
    "ROOT_ACCESS_TOKEN",
    "ROOT_ACCESS_TOKEN_PREVIOUS",
    "MESSAGE_SIGNING_KEYS",
    "ACCESS_TOKEN_KEYS",
    "STORAGE_ACCOUNT_KEY",
}
PLATFORM = {
    "AzureWebJobsStorage__credential": "identity of the host's own connection",
    "AzureWebJobsStorage__clientId": "identity of the host's own connection",
    "AzureWebJobsStorage__blobServiceUri": "leases of the timers",
    "AzureWebJobsStorage__queueServiceUri": "queue triggers",
    "AzureWebJobsStorage__tableServiceUri": "the host's diagnostics",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": "identity instead of the key in the connection string",
    "OTEL_TRACES_SAMPLER": "OpenTelemetry's own: a share of the traces",
    "OTEL_TRACES_SAMPLER_ARG": "OpenTelemetry's own: a share of the traces",
    "AzureFunctionsJobHost__extensions__queues__batchSize": "host.json, by profile",
    "AzureFunctionsJobHost__extensions__queues__newBatchThreshold": "host.json, by profile",
}
"""What the infrastructure sets for others than the app's code, and what for."""


def test_both_ways() -> None:
    given = deployment.setting_names()
    assert READ - given == set(), "the code reads these, and nobody sets them"
    assert given - READ == PLATFORM.keys(), "these are set, and nobody reads them"


def test_nothing_reads_the_environment_but_the_settings() -> None:
    for path in [*(ROOT / "shared").rglob("*.py"), *(ROOT / "functions").rglob("*.py")]:
        for line in path.read_text().splitlines():
            if re.search(r"os\.environ|getenv", line):
                assert re.search(r"OTEL_SERVICE_NAME|OTEL_TRACES_SAMPLER|STATSBEAT", line), f"{path.name}: {line}"


def test_secrets_come_from_the_vault() -> None:
    own = deployment.own_settings()
    for name in SECRETS:
        texts = [text for text in bicep.strings(own[name]) if "@Microsoft.KeyVault" in text]
        assert len(texts) == 1, name
        secret = re.search(r"secrets/([a-z-]+)\)$", texts[0])
        assert secret is not None
    kept = {resource["name"] for _, resource in bicep.resources("Microsoft.KeyVault/vaults/secrets")} | {
        "root-access-token-previous"
    }  # put there by hand while the token is rotated
    text = json.dumps(own)
    assert set(re.findall(r"secrets/([a-z-]+)\)", text)) == kept


def test_what_is_secret_in_the_code_is_a_secret_here() -> None:
    secret = {name.upper() for name, field in Settings.model_fields.items() if "SecretStr" in repr(field.annotation)}
    # A connection string of Application Insights without local authentication opens nothing.
    assert secret - set(settings_docs.KEYS_INSTEAD_OF_IDENTITIES) - {"APPLICATIONINSIGHTS_CONNECTION_STRING"} == SECRETS


@pytest.mark.parametrize("profile", deployment.PROFILES)
def test_the_app_starts_with_them(profile: str) -> None:
    values = {name.lower(): value for name, value in deployment.settings(profile).items() if value}
    settings = Settings.model_validate({name: value for name, value in values.items() if name.upper() in READ})
    assert settings.storage_connection_string is None
    assert settings.storage_account_key is None
    assert settings.servicebus_connection_string is None
    assert settings.managed_identity_client_id is not None


def test_host_json_is_overridden_only_where_it_has_a_value() -> None:
    host: dict[str, Any] = json.loads((ROOT / "host.json").read_text())
    for name in PLATFORM:
        if name.startswith("AzureFunctionsJobHost__"):
            section: Any = host
            for word in name.split("__")[1:]:
                section = section[word]
            assert isinstance(section, int)
