"""The app settings of a deployment: names that the app or the platform reads, values that the app takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import ValidationError

from shared.base.settings import Settings, SettingsError
from tools.local.templates.scenarios import SECRETS
from tools.local.templates.values import Deployed, Finding, Unknown

PLATFORM = {
    "AzureWebJobsStorage__credential": "identity of the host's own connection",
    "AzureWebJobsStorage__clientId": "identity of the host's own connection",
    "AzureWebJobsStorage__blobServiceUri": "leases of the timers",
    "AzureWebJobsStorage__queueServiceUri": "queue triggers",
    "AzureWebJobsStorage__tableServiceUri": "the host's diagnostics",
    "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": "bodies, which the host holds in memory",
    "AzureWebJobsDisableHomepage": "the root is the app's, not a page about Azure Functions",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": "identity instead of the key in the connection string",
    "OTEL_TRACES_SAMPLER": "OpenTelemetry's own: a share of the traces",
    "OTEL_TRACES_SAMPLER_ARG": "OpenTelemetry's own: a share of the traces",
    "AzureFunctionsJobHost__extensions__queues__batchSize": "host.json, by profile",
    "AzureFunctionsJobHost__extensions__queues__newBatchThreshold": "host.json, by profile",
}
"""Settings that the infrastructure sets for other readers than the app's code, and their purpose."""
KEPT = {
    "root-access-token": SECRETS["QUEUE_NEW_ROOT_ACCESS_TOKEN"],
    "root-access-token-previous": "earlier-token-of-the-tests-only-44",
    "message-signing-keys": SECRETS["QUEUE_NEW_MESSAGE_SIGNING_KEYS"],
    "access-token-keys": SECRETS["QUEUE_NEW_ACCESS_TOKEN_KEYS"],
    "storage-account-key": "a2V5IG9mIHRoZSB0ZXN0cyBvbmx5",
}
"""Example secrets, by their names in the vault."""
REFERENCE = re.compile(r"@Microsoft\.KeyVault\(SecretUri=https://kv-\w+\.vault\.azure\.net/secrets/([a-z-]+)/\)")


def resolved(settings: dict[str, str]) -> dict[str, str]:
    """The settings as the app sees them: references into the vault replaced by what is there."""
    found = {name: REFERENCE.fullmatch(str(value)) for name, value in settings.items()}
    return {name: KEPT.get(match[1], "") if match else settings[name] for name, match in found.items()}


def problems(root: Deployed) -> Iterator[Finding]:
    """Settings that nothing reads, and values that the app would refuse at its start."""
    for each in root.all_resources():
        if each.type != "Microsoft.Web/sites/config":
            continue
        settings = each.body["properties"]
        known = {name.upper() for name in Settings.model_fields} | PLATFORM.keys()
        for name in sorted(settings.keys() - known):
            if not name.startswith("OTEL_"):  # OpenTelemetry's own
                yield Finding(each.place, f"nothing reads the setting {name}")
        if any(isinstance(value, Unknown) for value in settings.values()):
            continue
        values = {name.lower(): value for name, value in resolved(settings).items() if value and name in known}
        own = {name: value for name, value in values.items() if name in Settings.model_fields}
        try:
            Settings.model_validate(own)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_input=False):
                name = ".".join(map(str, problem["loc"])).upper()
                yield Finding(each.place, f"the app refuses the setting {name}: {problem['msg']}")
        except SettingsError as error:
            yield Finding(each.place, f"the app refuses its settings: {error}")
