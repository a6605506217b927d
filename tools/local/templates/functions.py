"""The functions of Bicep that templates here may use."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from tools.local.templates.values import SUBSCRIPTION, Later, Namespace, Unknown, Value, guid, is_late, unique_string

ONCE = {"utcNow", "newGuid"}
"""Functions whose value differs from one deployment to the next."""


def union(*parts: Value) -> Value:
    """Joins lists without repetition, or merges objects at all depths, where later ones win."""
    if isinstance(parts[0], list):
        joined: list[Value] = []
        for each in (each for part in parts for each in part):
            if each not in joined:
                joined.append(each)
        return joined
    merged: dict[str, Value] = {}
    for part in parts:
        for key, value in part.items():
            known = merged.get(key)
            merged[key] = union(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def subnet(prefix: str, length: int, index: int) -> str:
    """Implements `cidrSubnet`."""
    return str(list(islice(ipaddress.ip_network(prefix).subnets(new_prefix=length), index + 1))[index])


def empty(value: Value) -> bool:
    """Implements `empty`, for which null is empty."""
    return value is None or value in ("", [], {})


def contains(where: Value, what: Value) -> bool:
    """Implements `contains`, which ignores the case of names of an object's properties."""
    if isinstance(where, dict):
        return what.lower() in {key.lower() for key in where}
    return what in where


def resource_id(*parts: str, subscription: str = SUBSCRIPTION) -> str:
    """Implements `subscriptionResourceId`: a type and a name for each of its words but the first."""
    provider, *words = parts[0].split("/")
    names = "".join(f"/{word}/{name}" for word, name in zip(words, parts[1:], strict=True))
    return f"/subscriptions/{subscription}/providers/{provider}{names}"


def _format(pattern: str, *values: Value) -> str:
    return pattern.format(*values)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    return value if isinstance(value, str) else json.dumps(value)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "array": lambda value: value if isinstance(value, list) else [value],
    "base64": lambda value: Later(f"base64({value})"),
    "bool": lambda value: value if isinstance(value, bool) else str(value).lower() in ("true", "1"),
    "cidrSubnet": subnet,
    "concat": lambda *parts: "".join(parts) if isinstance(parts[0], str) else [each for part in parts for each in part],
    "contains": contains,
    "deployment": lambda: Namespace({"name": "deployment"}),
    "empty": empty,
    "endsWith": lambda text, end: text.lower().endswith(end.lower()),
    "environment": lambda: Namespace(
        {
            "name": "AzureCloud",
            "authentication": {"loginEndpoint": "https://login.microsoftonline.com/"},
            "suffixes": {"storage": "core.windows.net"},
        }
    ),
    "first": lambda value: value[0],
    "flatten": lambda value: [each for part in value for each in part],
    "format": _format,
    "guid": guid,
    "indexOf": lambda values, value: values.index(value) if value in values else -1,
    "int": int,
    "items": lambda value: [{"key": key, "value": value[key]} for key in sorted(value)],
    "json": json.loads,
    "join": lambda parts, separator: separator.join(map(_text, parts)),
    "last": lambda value: value[-1],
    "length": len,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "parseCidr": lambda prefix: {
        "network": str(ipaddress.ip_network(prefix)[0]),
        "broadcast": str(ipaddress.ip_network(prefix)[-1]),
    },
    "padLeft": lambda text, length, fill=" ": str(text).rjust(length, fill),
    "range": lambda start, count: list(range(start, start + count)),
    "replace": lambda text, old, new: text.replace(old, new),
    "skip": lambda value, count: value[count:],
    "split": lambda text, separator: text.split(separator),
    "startsWith": lambda text, start: text.lower().startswith(start.lower()),
    "string": _text,
    "substring": lambda text, start, length=None: text[start:] if length is None else text[start : start + length],
    "take": lambda value, count: value[:count],
    "toLower": str.lower,
    "toUpper": str.upper,
    "trim": str.strip,
    "union": union,
    "uniqueString": unique_string,
}
WITH_LAMBDAS = {"map", "filter", "any", "all"}
WITH_FILES = {"loadJsonContent", "loadTextContent"}
OF_A_PLACE = {"resourceGroup", "subscription", "subscriptionResourceId", "tenant"}
KNOWN = {*FUNCTIONS, *WITH_LAMBDAS, *WITH_FILES, *ONCE, *OF_A_PLACE}


def call(function: str, arguments: list[Value]) -> Value:
    """Returns the value of a function. With an argument that is `Later` or `Unknown`, the value is so, too."""
    unknown = next((each for each in arguments if isinstance(each, Unknown)), None)
    if unknown is not None:
        return Unknown(f"{function}({unknown.what})")
    value = FUNCTIONS[function](*arguments)
    return Later(value) if isinstance(value, str) and any(map(is_late, arguments)) else value


def load(function: str, folder: Path, name: str) -> Value:
    """Returns the content of a file beside the template."""
    text = (folder / name).read_text(encoding="utf-8")
    return json.loads(text) if function == "loadJsonContent" else text
