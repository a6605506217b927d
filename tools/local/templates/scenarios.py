"""The deployments that are checked: both profiles, bare, with everything, with all access closed, and some others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tools.local.templates.values import Value

PROFILES = ("small", "large")
OPERATOR = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SECRETS = {
    "QUEUE_NEW_ROOT_ACCESS_TOKEN": "root-token-of-the-tests-only-44",
    "QUEUE_NEW_MESSAGE_SIGNING_KEYS": "signing-key-of-the-tests-only-44",
    "QUEUE_NEW_ACCESS_TOKEN_KEYS": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
}
BARE = {"AZURE_ENV_NAME": "my-queue", "AZURE_LOCATION": "westeurope"}
EVERYTHING = {
    **BARE,
    **SECRETS,
    "QUEUE_ROOT_URL": "https://queue.example.com",
    "QUEUE_APP_VERSION": "v1.2.3",
    "QUEUE_TOPIC_PREFIX": "exchange/taskcluster-queue/v1/",
    "QUEUE_PUBLIC_ARTIFACTS": "true",
    "QUEUE_PUBLIC_ARTIFACT_BASE_URL": "https://cdn.example.com/public-artifacts",
    "QUEUE_OPENID_CLIENT_ID": "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee",
    "QUEUE_OPENID_ROLES": "queue-admins=login:admins *=login:everybody",
    "QUEUE_OPENID_WORKLOAD_ISSUER": "https://token.actions.githubusercontent.com",
    "QUEUE_ACCEPT_PREVIOUS_ROOT_TOKEN": "true",
    "QUEUE_SIGN_WITH_ACCOUNT_KEY": "true",
    "QUEUE_OPERATOR_ID": OPERATOR,
    "QUEUE_OPERATOR_TYPE": "Group",
    "QUEUE_ALERT_EMAILS": "ops@example.com, more@example.com",
    "QUEUE_VIRTUAL_NETWORK": "true",
    "QUEUE_WORKERS": "my-team/linux, My_Team/gpu",
    "QUEUE_WORKER_IMAGE": "myworkers.azurecr.io/worker:1",
    "QUEUE_WORKER_REGISTRY": "myworkers",
}
CLOSED = {
    **EVERYTHING,
    "QUEUE_APP_PUBLIC_ACCESS": "Disabled",
    "QUEUE_STORAGE_PUBLIC_ACCESS": "Disabled",
    "QUEUE_SERVICEBUS_PUBLIC_ACCESS": "Disabled",
    "QUEUE_KEY_VAULT_PUBLIC_ACCESS": "Disabled",
}


DEPLOYER = "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"
PERSON = {
    **BARE,
    "AZURE_PRINCIPAL_ID": DEPLOYER,
    "AZURE_PRINCIPAL_TYPE": "User",
    "QUEUE_ALERT_EMAILS": "ops@example.com",
}
OTHERWISE: Mapping[str, Mapping[str, str]] = {
    "large, by a person, with what no other one has": {
        **PERSON,
        "QUEUE_PROFILE": "large",
        "QUEUE_OPENID_CLIENT_ID": "c",
        "QUEUE_OPENID_ISSUER": "https://id.example.com",
        "QUEUE_OPENID_ROLES": "a=b",
        "QUEUE_PUBLIC_ARTIFACTS": "true",
        "QUEUE_STORAGE_ALLOWED_ADDRESSES": '["203.0.113.0/24", "198.51.100.7/32", "192.0.2.0/31"]',
        "QUEUE_ARTIFACT_CORS_ORIGINS": '["https://example.com"]',
        "QUEUE_ALERT_EMAILS": " ops@example.com ,more@example.com,",
        "QUEUE_MONTHLY_BUDGET": "100",
        "QUEUE_BUDGET_START": "2026-02-01",
        "QUEUE_PROFILE_OVERRIDES": '{"artifactCoolAfterDays": 30, "artifactDeleteAfterDays": 90, "httpConcurrency": 9, '
        '"updateStrategy": "RollingUpdate", "storageSku": "Standard_GZRS"}',
        "QUEUE_SETTING_OVERRIDES": '{"POLL_VISIBILITY_SECONDS": "240", "STORAGE_ACCOUNT_NAME": "other"}',
        "QUEUE_WORKERS": "my-team/linux",
        "QUEUE_WORKER_IMAGE": "example.org/worker:1",
        "QUEUE_WORKER_OVERRIDES": '{"my-team/linux": {"parallelism": 2}}',
        "QUEUE_TAGS": '{"a": "b"}',
    },
    "large, of an account that is taken": {
        **CLOSED,
        "QUEUE_PROFILE": "large",
        "QUEUE_UPLOADS_APP": "true",
        "QUEUE_NOTIFY_APP": "true",
        "QUEUE_NOTIFY": '{"mailDomains": ["example.com", "example.org"], "clientId": "notify", "chat": true, '
        '"settings": {"DENIED": "email.not-me@example.com"}}',
        "QUEUE_STORAGE_ACCOUNT_ID": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/old",
    },
    "small, with a closed vault, by a person without an operator": {
        **PERSON,
        "QUEUE_KEY_VAULT_PUBLIC_ACCESS": "Disabled",
        "QUEUE_OPERATOR_ID": "none",
    },
    "small, with a closed account, by a pipeline": {
        **PERSON,
        "AZURE_PRINCIPAL_TYPE": "ServicePrincipal",
        "QUEUE_STORAGE_PUBLIC_ACCESS": "Disabled",
    },
    "small, with a notifier that has no mail yet": {**BARE, "QUEUE_NOTIFY_APP": "true"},
    "small, with an app for uploads": {**BARE, "QUEUE_UPLOADS_APP": "true"},
    "large, with workers and no network": {
        **BARE,
        "QUEUE_PROFILE": "large",
        "QUEUE_WORKERS": "my-team/linux",
        "QUEUE_WORKER_IMAGE": "example.org/worker:1",
    },
    "small, with a closed app": {**BARE, "QUEUE_APP_PUBLIC_ACCESS": "Disabled"},
    "large, with a closed namespace": {
        **BARE,
        "QUEUE_PROFILE": "large",
        "QUEUE_SERVICEBUS_PUBLIC_ACCESS": "Disabled",
        "QUEUE_TOPIC_PREFIX": "q/",
    },
}


def scenarios() -> dict[str, Mapping[str, str]]:
    """Returns environments of azd, by name."""
    usual = {
        f"{profile}, {name}": {**environment, "QUEUE_PROFILE": profile}
        for profile in PROFILES
        for name, environment in (("bare", BARE), ("everything", EVERYTHING), ("closed", CLOSED))
    }
    return {**usual, **OTHERWISE}


def parameters(file: Path, environment: Mapping[str, str], types: Mapping[str, str]) -> dict[str, Value]:
    """Returns the values that azd takes from main.parameters.json, given its environment and the parameters' declared
    types. azd reads a variable that is empty as one that is not set, and turns texts into booleans, numbers and, as
    JSON, objects and lists where the template wants these. An empty value leaves the template's own default."""
    given: dict[str, Value] = {}
    for name, entry in json.loads(file.read_text(encoding="utf-8"))["parameters"].items():
        value = entry["value"]
        if isinstance(value, str):
            value = re.sub(
                r"\$\{(\w+)(?:=([^}]*))?\}", lambda match: environment.get(match[1]) or match[2] or "", value
            )
            if value == "" and types.get(name) != "string":
                continue
            if types.get(name) in ("object", "array"):
                value = json.loads(value)
            if types.get(name) == "bool":
                value = value.lower() == "true"
            elif types.get(name) == "int":
                value = int(value)
        given[name] = value
    return given
