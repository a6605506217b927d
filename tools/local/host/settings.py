"""App settings: the environment, filled up from local.settings.json as Core Tools do."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.local.host.errors import HostError

_REFERENCE = re.compile(r"%([^%]+)%")


def read_settings(file: Path) -> dict[str, str]:
    """Returns the `Values` of a local.settings.json. Raises HostError if the file is unreadable, encrypted, or holds a
    value that is not a string: app settings are."""
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise HostError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise HostError(f"{file} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise HostError(f"{file} must hold an object")
    if document.get("IsEncrypted"):
        raise HostError(f"{file} is encrypted: run `func settings decrypt`, or write it anew")
    values = document.get("Values", {})
    if not isinstance(values, dict):
        raise HostError(f"{file}: Values must be an object")
    for name, value in values.items():
        if not isinstance(value, str):
            raise HostError(f"{file}: the value of {name} must be a string, as app settings are")
    return values


def resolve(text: str, settings: Mapping[str, str], function: str) -> str:
    """Replaces `%NAME%` in a binding's property by the app setting NAME.

    Raises HostError naming the function if there is no such setting.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in settings:
            raise HostError(f"function {function}: the app setting {match[1]} that its binding names is not set")
        return settings[match[1]]

    return _REFERENCE.sub(value, text)


def positive(settings: Mapping[str, str], name: str) -> int | None:
    """Returns the whole number that an app setting holds, None if it is not set. Raises HostError for anything else."""
    text = settings.get(name)
    if not text:
        return None
    if not text.isdigit() or int(text) == 0:
        raise HostError(f"the app setting {name} must be a positive whole number")
    return int(text)
