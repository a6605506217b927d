"""The app settings that a local stack gives its hosts.

Later sources win: the limits of a small deployment, secrets made for this stack, `Values` of local.settings.json, the
environment, what the caller decides (such as the demo's short timeouts), and last the stack's own addresses. So an
environment that belongs to another stack cannot change the addresses.
"""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.local import state
from tools.local.ports import Ports

SETTINGS_FILE = "local.settings.json"
PROFILE = state.ROOT / "infra" / "profiles" / "small.json"
"""File with the limits of a local stack."""


ADDRESS_SETTINGS = (
    "TASKCLUSTER_ROOT_URL",
    "AzureWebJobsStorage",
    "STORAGE_CONNECTION_STRING",
    "SERVICEBUS_CONNECTION_STRING",
)
"""The settings that `addresses` returns."""


class AppSettingsError(ValueError):
    """A settings file that cannot be read; the message names it and what is wrong."""


def addresses(ports: Ports, storage: str, service_bus: str) -> dict[str, str]:
    """Returns the settings that say where the stack is: root URL and connection strings."""
    return dict(zip(ADDRESS_SETTINGS, (root_url(ports), storage, storage, service_bus), strict=True))


def with_uploads(ports: Ports) -> dict[str, str]:
    """Returns the settings of an app beside which uploads have an app of their own."""
    return {"UPLOADS_ROOT_URL": f"http://127.0.0.1:{ports.uploads}"}


def of_uploads() -> dict[str, str]:
    """Returns the settings of the app that takes uploads, as the templates set them."""
    settings: dict[str, str] = _profile()["uploads"]["settings"]
    return {**settings, "SERVES": "uploads", "UPLOADS_ROOT_URL": ""}


def of_host() -> dict[str, str]:
    """Returns the limits of the Functions host, as the templates set them."""
    name = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"
    return {name: _profile()["settings"][name]}


def _profile() -> Any:
    return json.loads(PROFILE.read_text(encoding="utf-8"))


def root_url(ports: Ports) -> str:
    """Returns the URL at which clients find the stack: an address, as `localhost` may mean ::1."""
    return f"http://127.0.0.1:{ports.api}"


def collect(
    *,
    generated: Mapping[str, str],
    file: Mapping[str, str],
    environment: Mapping[str, str],
    decided: Mapping[str, str],
) -> dict[str, str]:
    """Returns all settings of the app but the addresses, in the order of precedence that the module states."""
    merged = {**of_host(), **generated, **file}
    merged |= {name: environment[name] for name in merged if name in environment}
    return {**merged, **decided}


def read_settings_file(path: Path) -> dict[str, str]:
    """Returns `Values` of a local.settings.json; nothing if there is no such file. Raises AppSettingsError."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise AppSettingsError(f"{path.name} is not valid JSON: {error}") from None
    values: Any = document.get("Values", {}) if isinstance(document, dict) else None
    if not isinstance(values, dict):
        raise AppSettingsError(f'{path.name} must be an object with an object "Values"')
    for name, value in values.items():
        if not isinstance(value, str):
            raise AppSettingsError(f'{path.name}: the value of "{name}" must be a string, as Azure Functions wants it')
    return dict(values)


def stack_secrets(folder: Path) -> dict[str, str]:
    """Returns the secrets of the stack in this folder, made at its first start and kept beside its data."""
    path = folder / "secrets.json"
    try:
        stored: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        stored = new_secrets()
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(stored, file, indent=2)
    return stored


def new_secrets() -> dict[str, str]:
    """Returns a value for each setting that has to be secret."""
    return {
        "ROOT_ACCESS_TOKEN": secrets.token_urlsafe(33),
        "MESSAGE_SIGNING_KEYS": secrets.token_urlsafe(32),
        "ACCESS_TOKEN_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    }
