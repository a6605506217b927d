"""Writes what follows from shared/base/settings.py: `python -m tools.local.settings_docs`.

docs/settings.md, the values in local.settings.example.json, and infra/settings.json: the defaults that a deployment
sets. What a setting means stands in local.settings.example.json and nowhere else. A test fails when the files differ
from what this writes.
"""

import base64
import json
from typing import Any, get_args

import annotated_types
from pydantic.fields import FieldInfo

from shared.base.settings import Settings
from tools.local import appsettings
from tools.local.azurite import storage_connection_string
from tools.local.ports import DEFAULT_PORT, Ports
from tools.local.service_bus import service_bus_connection_string
from tools.local.state import ROOT

DOCUMENT = ROOT / "docs" / "settings.md"
EXAMPLE = ROOT / "local.settings.example.json"
DEPLOYED = ROOT / "infra" / "settings.json"

KEYS_INSTEAD_OF_IDENTITIES = ("STORAGE_CONNECTION_STRING", "SERVICEBUS_CONNECTION_STRING")
"""Settings that a deployment never has, since it uses identities."""

_PORTS = Ports.derive(DEFAULT_PORT)
_STORAGE = storage_connection_string(_PORTS.storage)

HOST_SETTINGS = {
    "FUNCTIONS_WORKER_RUNTIME": "python",
    "AzureWebJobsStorage": _STORAGE,
    "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": appsettings.of_host()["FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"],
}
"""Settings that the Functions host reads rather than the app, with their values in the example."""

EXAMPLE_VALUES = {
    "TASKCLUSTER_ROOT_URL": f"http://127.0.0.1:{DEFAULT_PORT}",
    "ROOT_ACCESS_TOKEN": "for-local-development-only-0000",
    "MESSAGE_SIGNING_KEYS": "for-local-development-only-1111",
    "ACCESS_TOKEN_KEYS": base64.urlsafe_b64encode(b"for-local-development-only-22222").decode(),
    "STORAGE_CONNECTION_STRING": _STORAGE,
    "SERVICEBUS_CONNECTION_STRING": service_bus_connection_string(_PORTS.amqp),
}
"""Values in the example of settings that have no default. An empty value counts as none."""

_INTRODUCTION = """\
# Settings

<!-- Written by `python -m tools.local.settings_docs` from shared/base/settings.py, and from the meanings in
local.settings.example.json. -->

The app reads its settings from the environment: App Settings in Azure, `Values` of `local.settings.json` locally
(start from `local.settings.example.json`). A setting in the environment wins over the file; an empty value counts
as none. A missing or bad setting stops the start with a message that names it.

`./dev up` and `./dev demo` need no file: they make up the secrets, keep them in `.local/<port>/`, and always decide
the root URL and the connection strings themselves, since these are where the stack is.
"""


def meanings() -> dict[str, str]:
    """Returns what each setting means. Raises KeyError for one whose meaning is missing."""
    said: dict[str, str] = json.loads(EXAMPLE.read_text(encoding="utf-8"))["//"]
    return {name: said[name] for name in (*HOST_SETTINGS, *(name for name, _ in _fields()))}


def settings_table() -> str:
    """Returns docs/settings.md."""
    means = meanings()
    rows = ["| Setting | Default | Allowed | Meaning |", "|---|---|---|---|"]
    for name, field in _fields():
        default = "**required**" if field.is_required() else _code(field.default)
        rows.append(f"| `{name}` | {default} | {_allowed(field)} | {means[name]} |")
    host = ["| Setting | Meaning |", "|---|---|"]
    host += [f"| `{name}` | {means[name]} |" for name in HOST_SETTINGS]
    return "\n".join(
        [_INTRODUCTION, "## The app's", "", *rows, "", "## The Functions host's", "", *host, ""],
    )


def example() -> str:
    """Returns local.settings.example.json: every setting with its meaning, and a value for `./dev up`."""
    values = dict(HOST_SETTINGS)
    for name, field in _fields():
        default = "" if field.is_required() or field.default is None else str(field.default)
        values[name] = EXAMPLE_VALUES.get(name, default)
    document = {
        "IsEncrypted": False,
        "//": meanings(),
        "Values": values,
        "Host": {"LocalHttpPort": DEFAULT_PORT},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def deployed() -> str:
    """Returns infra/settings.json: every optional setting with its default; app.bicep adds what it knows better."""
    values = {
        name: "" if field.default is None else str(field.default)
        for name, field in _fields()
        if not field.is_required() and name not in KEYS_INSTEAD_OF_IDENTITIES
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Writes the files."""
    DOCUMENT.write_text(settings_table(), encoding="utf-8")
    EXAMPLE.write_text(example(), encoding="utf-8")
    DEPLOYED.write_text(deployed(), encoding="utf-8")


def _fields() -> list[tuple[str, FieldInfo]]:
    return [(name.upper(), field) for name, field in Settings.model_fields.items()]


def _allowed(field: FieldInfo) -> str:
    """Returns what values the field takes, in a few words."""
    choices = [value for value in get_args(field.annotation) if isinstance(value, str)]
    if choices:
        return ", ".join(_code(choice) for choice in choices)
    words = []
    for rule in field.metadata:
        if isinstance(rule, annotated_types.Ge):
            words.append(f"≥ {_number(rule.ge)}")
        elif isinstance(rule, annotated_types.Gt):
            words.append(f"> {_number(rule.gt)}")
        elif isinstance(rule, annotated_types.Le):
            words.append(f"≤ {_number(rule.le)}")
        elif pattern := getattr(rule, "pattern", None):
            words.append(f"matches `{pattern}`".replace("|", "\\|"))
    return ", ".join(words)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _code(value: Any) -> str:
    return "" if value in (None, "") else f"`{value}`"


if __name__ == "__main__":
    main()
