"""Each mistake that is planted into the app's settings, and into what they are made of, is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.planting import Mistake, check_found

MAIN, APP = "main.bicep", "modules/app.bicep"
OVERRIDES = "param settingOverrides object = {}"
WRONG = "param settingOverrides object = {\n  LONG_POLL_SECONDS: '60'\n}"
UNREAD = "param settingOverrides object = {\n  LONG_POLLS_SECONDS: '20'\n}"

MISTAKES = [
    Mistake("override that the app refuses", MAIN, OVERRIDES, WRONG, "LONG_POLL_SECONDS: Input"),
    Mistake("override by another name", MAIN, OVERRIDES, UNREAD, "nothing reads the setting LONG_POLLS"),
    Mistake(
        "override that is not put in force",
        APP,
        "scale.settings, settingOverrides, own",
        "scale.settings, own",
        "not used",
    ),
    Mistake(
        "default that the app refuses",
        "settings.json",
        'Y_SECONDS": "60"',
        'Y_SECONDS": "6O"',
        "DEADLINE_DELAY_SECONDS: Input",
    ),
    Mistake(
        "secret for another use", APP, "secrets/access-token-keys/", "secrets/message-signing-keys/", "encryption key"
    ),
    Mistake(
        "two ways to storage", "settings.json", "{", '{"STORAGE_CONNECTION_STRING": "AccountKey=x",', "exactly one"
    ),
    Mistake(
        "client id",
        MAIN,
        "identityClientId: identity.outputs.c",
        "identityClientId: deploymentIdentity.outputs.c",
        "CLIENT_ID",
    ),
    Mistake(
        "principal for a client id",
        MAIN,
        "identity.outputs.clientId",
        "identity.outputs.principalId",
        "MANAGED_IDENTITY",
    ),
    Mistake("reader of secrets", APP, "Identity: identityId", "Identity: deploymentIdentityId", "has no role there"),
    Mistake(
        "reader of packages", APP, "ResourceId: deploymentIdentityId", "ResourceId: identityId", "has no role there"
    ),
    Mistake("identity that the app lacks", APP, "      '${identityId}': {}\n", "", "the app does not have"),
    Mistake(
        "address of the host's tables", APP, "Uri: storageUri.table", "Uri: storageUri.queue", "__tableServiceUri has"
    ),
    Mistake(
        "kind of credential", APP, "'managedidentity'", "'managedIdentity'", "__credential has to be managedidentity"
    ),
    Mistake("word of telemetry", APP, "Authorization=AAD", "Authorisation=AAD", "AUTHENTICATION_STRING has to be"),
    Mistake("no telemetry", "settings.json", '_DISABLED": "False"', '_DISABLED": "true"', "no alert fires"),
    Mistake("sampler", APP, "'parentbased_traceidratio'", "'parentbased_traceratio'", "no sampler parentbased_tracer"),
    Mistake("page of the platform", APP, "Homepage: 'true'", "Homepage: 'false'", "Homepage has to be true"),
    Mistake(
        "another account", APP, "_ACCOUNT_NAME: storageName", "_ACCOUNT_NAME: 'other'", "other, which is not deployed"
    ),
    Mistake(
        "another namespace",
        APP,
        "_NAMESPACE: '${serviceBusName}",
        "_NAMESPACE: '${storageName}",
        "which is not deployed",
    ),
    Mistake(
        "prefix of topics",
        MAIN,
        "Access\n    topicPrefix: topicPrefix",
        "Access\n    topicPrefix: ''",
        "with TOPIC_PREFIX",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_in_the_settings_is_found(mistake: Mistake, copy_of_infra: Path) -> None:
    check_found(mistake, copy_of_infra)
