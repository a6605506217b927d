"""host.json, as far as the local host acts on it.

Sections that only concern telemetry, scaling or deployment are accepted and left alone. Any other section or key is
an error: a setting that deployed Functions would obey must not be ignored in silence.
"""

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.local.host.errors import HostError
from tools.local.host.timespan import parse_timespan

TRACE = 5
"""The level below logging.DEBUG that .NET calls Trace."""

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 10,
}

USER_LINES = "Function.*.User"
"""The category of the lines that functions log themselves."""
_HARMLESS = frozenset(
    {
        "aggregator",
        "extensionBundle",
        "healthMonitor",
        "id",
        "managedDependency",
        "singleton",
        "telemetryMode",
        "watchDirectories",
        "watchFiles",
    }
)
"""Sections without meaning on one machine with one kind of storage."""

_OVERRIDES = "azurefunctionsjobhost"
"""Prefix of the names of app settings that replace values of host.json, in lower case."""
_MIN_POLLING_SECONDS = 0.1
_MAX_VISIBILITY_SECONDS = 7 * 86_400


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """The section `extensions.queues`, for all queue functions. Times in seconds; defaults are the platform's."""

    batch_size: int = 16
    new_batch_threshold: int = 8
    """Messages are fetched again when no more than this many are being processed."""
    visibility_timeout: int = 0
    """How long a message stays hidden after its function failed."""
    max_dequeue_count: int = 5
    max_polling_interval: float = 60.0
    message_encoding: str = "base64"
    """`base64` or `none`."""


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    """Content of host.json."""

    route_prefix: str = "api"
    queues: QueueOptions = field(default_factory=QueueOptions)
    function_timeout: float | None = 30 * 60.0
    """Seconds that a function may run; None if there is no bound."""
    log_level: int = logging.INFO


def parse_host_json(text: str, settings: Mapping[str, str] | None = None) -> HostConfig:
    """Reads the text of a host.json, with what app settings say in its place (`AzureFunctionsJobHost__…`).

    Raises HostError on anything that is wrong or that this host does not support.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise HostError(f"host.json is not JSON: {error}") from None
    for name, value in sorted((settings or {}).items()):
        words = name.split("__")
        if words[0].lower() == _OVERRIDES and len(words) > 1:
            _override(_mapping(document, ""), words[1:], value)
    top = _section(document, "", {"version", "functionTimeout", "logging", "extensions"} | _HARMLESS)
    if top.get("version") != "2.0":
        raise HostError('host.json must say "version": "2.0"')
    extensions = _section(top.get("extensions", {}), "extensions", {"http", "queues"})
    http = _section(extensions.get("http", {}), "extensions.http", {"routePrefix"})
    return HostConfig(
        route_prefix=_text(http, "extensions.http", "routePrefix", "api").strip("/"),
        queues=_queues(extensions.get("queues", {})),
        function_timeout=_timeout(top),
        log_level=_log_level(top.get("logging", {})),
    )


def _override(section: Any, words: Sequence[str], value: str) -> None:
    """Sets one value at a path of names, whose case does not matter. A text that is a number or a boolean becomes
    one."""
    name = next((each for each in section if each.lower() == words[0].lower()), words[0])
    if len(words) > 1:
        inner = section.setdefault(name, {})
        if not isinstance(inner, dict):
            raise HostError(f"host.json: an app setting is about {'.'.join(words)}, and {name} is no object")
        _override(inner, words[1:], value)
    elif value.lower() in ("true", "false"):
        section[name] = value.lower() == "true"
    else:
        section[name] = int(value) if re.fullmatch(r"\d+", value) else value


def _queues(value: object) -> QueueOptions:
    where = "extensions.queues"
    keys = {"batchSize", "newBatchThreshold", "visibilityTimeout", "maxDequeueCount", "maxPollingInterval"}
    section = _section(value, where, keys | {"messageEncoding"})
    batch_size = _number(section, where, "batchSize", 16, low=1, high=32)
    encoding = _text(section, where, "messageEncoding", "base64").lower()
    if encoding not in {"base64", "none"}:
        raise HostError(f'host.json: {where}.messageEncoding must be "base64" or "none"')
    interval = _span(section, where, "maxPollingInterval", 60.0)
    if interval < _MIN_POLLING_SECONDS:
        raise HostError(f"host.json: {where}.maxPollingInterval must be at least 100 ms")
    visibility = _span(section, where, "visibilityTimeout", 0.0)
    if not 0 <= visibility <= _MAX_VISIBILITY_SECONDS:
        raise HostError(f"host.json: {where}.visibilityTimeout must be between 0 and 7 days")
    return QueueOptions(
        batch_size=batch_size,
        new_batch_threshold=_number(section, where, "newBatchThreshold", batch_size // 2, low=0, high=1000),
        visibility_timeout=int(visibility),
        max_dequeue_count=_number(section, where, "maxDequeueCount", 5, low=1, high=2**31 - 1),
        max_polling_interval=interval,
        message_encoding=encoding,
    )


def _timeout(top: Mapping[str, Any]) -> float | None:
    if top.get("functionTimeout") == "-1":
        return None
    seconds = _span(top, "", "functionTimeout", 30 * 60.0)
    if seconds <= 0:
        raise HostError('host.json: functionTimeout must be positive, or "-1" for no bound')
    return seconds


def _log_level(value: object) -> int:
    """Returns the level of the lines that functions log. The rest of "logging" is about the host's telemetry."""
    levels = _mapping(_mapping(value, "logging").get("logLevel", {}), "logging.logLevel")
    name = USER_LINES if USER_LINES in levels else "default"
    given = _text(levels, "logging.logLevel", name, "information")
    level = _LEVELS.get(given.lower())
    if level is None:
        raise HostError(f"host.json: logging.logLevel.{name} is {given!r}; known are {', '.join(_LEVELS)}")
    return level


def _section(value: object, where: str, known: Collection[str]) -> Mapping[str, Any]:
    section = _mapping(value, where)
    unknown = sorted(set(section) - set(known))
    if unknown:
        names = ", ".join(f"{where}.{name}" if where else name for name in unknown)
        raise HostError(f"host.json: the local host does not support {names}")
    return section


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise HostError(f"host.json: {where or 'the document'} must be an object")
    return value


def _text(section: Mapping[str, Any], where: str, key: str, default: str) -> str:
    value = section.get(key, default)
    if not isinstance(value, str):
        raise HostError(f"host.json: {where}.{key} must be a string")
    return value


def _number(section: Mapping[str, Any], where: str, key: str, default: int, *, low: int, high: int) -> int:
    value = section.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise HostError(f"host.json: {where}.{key} must be a whole number from {low} to {high}")
    return value


def _span(section: Mapping[str, Any], where: str, key: str, default: float) -> float:
    value = section.get(key)
    if value is None:
        return default
    name = f"{where}.{key}" if where else key
    if not isinstance(value, str):
        raise HostError(f'host.json: {name} must be a string such as "00:00:02"')
    try:
        return parse_timespan(value)
    except ValueError as error:
        raise HostError(f"host.json: {name}: {error}") from None
