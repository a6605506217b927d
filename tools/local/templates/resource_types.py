"""Checks of values against Microsoft's resource types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.local.templates.shapes import Shape, document
from tools.local.templates.values import Later, Reference, Unknown, Value

AHEAD = {
    "microsoft.web/sites": "properties.functionAppConfig.siteUpdateStrategy",
    "microsoft.web/sites/basicpublishingcredentialspolicies": "location",
}
"""Properties that Azure takes and its types lack. The first is documented of Flex Consumption since 2024-11-01; without
a location the policies of some sites were refused, and Microsoft's own module for sites gives it."""
REQUIRED, READ_ONLY, WRITE_ONLY, CONSTANT = 1, 2, 4, 8


def find(resource_type: str, version: str) -> Shape | str:
    """Returns the type of a resource, or what is wrong with its name or version."""
    used = {name.lower(): entry for name, entry in document()["used"].items()}
    entry = used.get(f"{resource_type}@{version}".lower())
    if entry is not None:
        return Shape(entry["pool"], str(entry["index"]))
    versions = {name.lower(): each for name, each in document()["versions"].items()}.get(resource_type.lower())
    if versions is None:
        close = difflib.get_close_matches(resource_type, document()["versions"], 1)
        return f"no such resource type is in types.json{f'; is {close[0]} meant?' if close else ''}"
    if version in versions:
        return "types.json has another version of this type; renew it for this one (tools/local/templates/README.md)"
    return f"there is no API version {version}; the newest are {', '.join(versions[-3:])}"


def check(value: Value, shape: Shape, path: str = "") -> Iterator[str]:
    """Yields what is wrong with a value, each with its path."""
    where = path or "the resource"
    if isinstance(value, Unknown | Reference):
        if value.shape is not None and not _may_be(value.shape, shape):
            yield f"{where} is {_kind_of(shape)}, but gets something else"
        return
    match shape.kind:
        case "ResourceType":
            yield from check(value, shape.other(shape.raw["body"]), path)
        case "UnionType":
            yield from _check_union(value, shape, path)
        case "ObjectType" | "DiscriminatedObjectType":
            yield from _check_object(value, shape, path)
        case "ArrayType":
            yield from _check_array(value, shape, path)
        case "StringLiteralType":
            if value != shape.raw["value"]:
                yield f"{where} has to be {shape.raw['value']!r}, not {value!r}"
        case "StringType":
            yield from _check_text(value, shape.raw, where)
        case "IntegerType":
            yield from _check_integer(value, shape.raw, where)
        case "BooleanType" if not isinstance(value, bool):
            yield f"{where} has to be true or false, not {value!r}"


def _may_be(given: Shape, wanted: Shape) -> bool:
    """Returns whether a value of one type can be one of another."""
    return bool(_kinds(given) & _kinds(wanted)) or "AnyType" in _kinds(given) | _kinds(wanted)


def _kinds(shape: Shape) -> set[str]:
    kinds = {option.kind for option in shape.options()}
    if kinds & {"StringType", "StringLiteralType"}:
        kinds |= {"StringType", "StringLiteralType"}
    if kinds & {"ObjectType", "DiscriminatedObjectType"}:
        kinds |= {"ObjectType", "DiscriminatedObjectType"}
    return kinds


def _kind_of(shape: Shape) -> str:
    return " or ".join(sorted({option.kind.removesuffix("Type").lower() for option in shape.options()}))


def _check_union(value: Value, shape: Shape, path: str) -> Iterator[str]:
    options = shape.options()
    literals = [option.raw["value"] for option in options if option.kind == "StringLiteralType"]
    if isinstance(value, str) and not isinstance(value, Later) and literals:
        if value in literals:
            return
        same = [each for each in literals if each.lower() == value.lower()]
        close = same or difflib.get_close_matches(value, literals, 1)
        hint = f"; is {close[0]!r} meant?" if close else ""
        yield f"{path} has to be one of {', '.join(map(repr, literals[:12]))}, not {value!r}{hint}"
        return
    tried = [list(check(value, option, path)) for option in options]
    if not any(not findings for findings in tried):
        yield from min(tried, key=len)


def _check_object(value: Value, shape: Shape, path: str) -> Iterator[str]:
    where = path or "the resource"
    if not isinstance(value, dict):
        yield f"{where} has to be an object, not {value!r}"
        return
    variant, known = shape, shape.properties()
    if shape.kind == "DiscriminatedObjectType":
        name = shape.raw["discriminator"]
        chosen = shape.raw["elements"].get(value.get(name))
        if chosen is None:
            yield f"{where}.{name} has to be one of {', '.join(shape.raw['elements'])}, not {value.get(name)!r}"
            return
        variant = shape.other(chosen)
        base = shape.raw["baseProperties"].items()
        known = {**{key: (shape.other(each["type"]), each["flags"]) for key, each in base}, **variant.properties()}
    for name, (_, flags) in known.items():
        if flags & REQUIRED and value.get(name) is None:
            yield f"{where} needs {name}"
    additional = variant.raw.get("additionalProperties")
    for name, inner in value.items():
        inside = f"{path}.{name}".removeprefix(".")
        if name in known:
            inner_shape, flags = known[name]
            if flags & READ_ONLY:
                yield f"{inside} is read-only"
            elif inner is not None:
                yield from check(inner, inner_shape, inside)
        elif additional is not None:
            yield from check(inner, variant.other(additional), inside)
        else:
            yield _unknown(name, inside, known)


def _unknown(name: str, inside: str, known: Mapping[str, tuple[Shape, int]]) -> str:
    same = [each for each in known if each.lower() == name.lower()]
    if same:
        return f"{inside} is written {same[0]}"
    deeper = [each for each, (shape, flags) in known.items() if not flags & READ_ONLY and name in shape.properties()]
    if deeper:
        return f"{inside} is unknown here; it belongs into {deeper[0]}"
    close = difflib.get_close_matches(name, known, 1)
    return f"{inside} is unknown{f'; is {close[0]} meant?' if close else ''}"


def _check_array(value: Value, shape: Shape, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path} has to be a list, not {value!r}"
        return
    longest = shape.raw.get("maxLength")
    if longest is not None and len(value) > longest:
        yield f"{path} has {len(value)} items, {longest} at most"
    for index, each in enumerate(value):
        yield from check(each, shape.other(shape.raw["itemType"]), f"{path}[{index}]")


def _check_text(value: Value, raw: Mapping[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where} has to be a string, not {value!r}"
        return
    if isinstance(value, Later):
        return
    least, most = raw.get("minLength", 0), raw.get("maxLength", len(value))
    if not least <= len(value) <= most:
        yield f"{where} has to have {least} to {most} characters, not {len(value)}: {value!r}"
    if "pattern" in raw and not re.search(raw["pattern"], value):
        yield f"{where} has to match {raw['pattern']}, and {value!r} does not"


def _check_integer(value: Value, raw: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, float) and not value.is_integer():
        return  # the types have no other numbers, and a template has a fraction only by `json('0.5')`
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield f"{where} has to be a whole number, not {value!r}"
        return
    least, most = raw.get("minValue", value), raw.get("maxValue", value)
    if not least <= value <= most:
        yield f"{where} has to be {least} to {most}, not {value}"
