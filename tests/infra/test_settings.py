"""Every setting that the code reads is set by the infrastructure and the other way round, with values that it takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from shared.base.settings import Settings
from shared.store import keys
from tests.infra import templates
from tools.local import settings_docs
from tools.local.state import ROOT
from tools.local.templates import scenarios
from tools.local.templates.__main__ import evaluate
from tools.local.templates.app_settings import PLATFORM

READ = {name.upper() for name in Settings.model_fields} - set(settings_docs.KEYS_INSTEAD_OF_IDENTITIES)
SECRETS = {
    "ROOT_ACCESS_TOKEN": "root-access-token",
    "ROOT_ACCESS_TOKEN_PREVIOUS": "root-access-token-previous",
    "MESSAGE_SIGNING_KEYS": "message-signing-keys",
    "ACCESS_TOKEN_KEYS": "access-token-keys",
    "STORAGE_ACCOUNT_KEY": "storage-account-key",
}
PUT_BY_HAND = {"root-access-token-previous"}
"""While the token is rotated."""
SCENARIO = pytest.mark.parametrize("scenario", templates.SCENARIOS)


@SCENARIO
def test_the_templates_set_exactly_the_settings_that_the_code_reads(scenario: str) -> None:
    given = templates.settings(scenario).keys()
    assert READ - given == set(), "the code reads these, and no template sets them"
    assert given - READ == PLATFORM.keys(), "these are set, and no code reads them"


def test_nothing_reads_the_environment_but_the_settings() -> None:
    for path in {*(ROOT / "shared").rglob("*.py"), *(ROOT / "functions").rglob("*.py")} - {
        ROOT / "shared/base/settings.py"
    }:
        for line in path.read_text().splitlines():
            if re.search(r"os\.environ|getenv", line):
                assert re.search(r"OTEL_SERVICE_NAME|OTEL_TRACES_SAMPLER|_EXPORTER|STATSBEAT", line), (
                    f"{path.name}: {line}"
                )


@SCENARIO
def test_secrets_come_from_the_vault(scenario: str) -> None:
    references = templates.references(scenario)
    assert references.items() <= SECRETS.items()
    assert {name for name in SECRETS if templates.raw_settings(scenario)[name]} == references.keys()
    mentioned = "".join(templates.raw_settings(scenario).values()).count("@Microsoft.KeyVault(")
    assert mentioned == len(references), "each is a whole setting, without a version and with the slash at the end"
    if "bare" not in scenario:
        kept = {
            each.name.partition("/")[2] for each in templates.resources("Microsoft.KeyVault/vaults/secrets", scenario)
        }
        assert set(references.values()) == kept | PUT_BY_HAND


def test_what_is_secret_in_the_code_is_a_secret_here() -> None:
    secret = {name.upper() for name, field in Settings.model_fields.items() if "SecretStr" in repr(field.annotation)}
    # A connection string of Application Insights without local authentication opens nothing.
    assert secret - set(settings_docs.KEYS_INSTEAD_OF_IDENTITIES) - {"APPLICATIONINSIGHTS_CONNECTION_STRING"} == (
        SECRETS.keys()
    )


@SCENARIO
def test_the_app_starts_with_them(scenario: str) -> None:
    values = {name.lower(): value for name, value in templates.settings(scenario).items() if value}
    settings = Settings.model_validate({name: value for name, value in values.items() if name.upper() in READ})
    assert settings.storage_connection_string is None
    assert settings.servicebus_connection_string is None
    assert settings.managed_identity_client_id is not None
    assert (settings.storage_account_key is None) == ("bare" in scenario)
    assert settings.root_url == ("https://queue.example.com" if "bare" not in scenario else settings.root_url)
    outputs = templates.deployed(scenario).outputs
    assert outputs["TASKCLUSTER_ROOT_URL"] == settings.taskcluster_root_url
    assert outputs["STORAGE_ACCOUNT_NAME"] == settings.storage_account_name
    assert outputs["SERVICEBUS_NAMESPACE"] == settings.servicebus_namespace


@pytest.mark.parametrize("profile", templates.PROFILES)
def test_values_of_a_profile_win_over_defaults(profile: str) -> None:
    own: dict[str, str] = templates.document(f"profiles/{profile}.json")["settings"]
    assert own
    assert own.items() <= templates.raw_settings(f"{profile}, bare").items()


def test_public_artifacts_are_read_where_everybody_may_read() -> None:
    environment = {**scenarios.BARE, "QUEUE_PUBLIC_ARTIFACTS": "true"}
    account, _, container = templates.settings_of(environment)["PUBLIC_ARTIFACT_BASE_URL"].rpartition("/")
    assert account == f"https://{templates.settings_of(environment)['STORAGE_ACCOUNT_NAME']}.blob.core.windows.net"
    public = {
        each.name.rpartition("/")[2]
        for each in evaluate(environment).all_resources()
        if each.type.endswith("/blobServices/containers") and each.body["properties"]["publicAccess"] == "Blob"
    }
    assert public == {container} == {keys.PUBLIC}


def test_people_sign_in_with_entra_id_of_the_tenant_if_an_application_is_named() -> None:
    environment = {**scenarios.EVERYTHING, "QUEUE_PROFILE": "small"}
    given = templates.settings_of(environment)
    assert re.fullmatch(r"https://login\.microsoftonline\.com/[0-9a-f-]{36}/v2\.0", given["OPENID_ISSUER"])
    assert (given["OPENID_NAME"], given["OPENID_USER_CLAIM"]) == ("entra", "oid")
    other = templates.settings_of({**environment, "QUEUE_OPENID_ISSUER": "https://id.example.com"})
    assert other["OPENID_ISSUER"] == "https://id.example.com"
    nobody = templates.settings_of({**environment, "QUEUE_OPENID_CLIENT_ID": ""})
    assert (nobody["OPENID_ISSUER"], nobody["OPENID_CLIENT_ID"]) == ("", "")


def test_host_json_is_overridden_only_where_it_has_a_value() -> None:
    host: dict[str, Any] = json.loads((ROOT / "host.json").read_text())
    for name in PLATFORM:
        if name.startswith("AzureFunctionsJobHost__"):
            section: Any = host
            for word in name.split("__")[1:]:
                section = section[word]
            assert isinstance(section, int)
