"""The Bicep files as pycep reads them. It does not tell names from strings, so neither do these."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pycep

from local.state import ROOT

INFRA = ROOT / "infra"
FILES = sorted(INFRA.rglob("*.bicep"))


@functools.cache
def parsed(name: str) -> Any:
    """The tree of a file, by its path below infra/."""
    return pycep.BicepParser().parse(text=(INFRA / name).read_text())


def trees() -> dict[str, Any]:
    """Every file's tree."""
    return {str(path.relative_to(INFRA)): parsed(str(path.relative_to(INFRA))) for path in FILES}


def resources(kind: str | None = None) -> Iterator[tuple[str, Any]]:
    """`file: name` and body of each declared resource, of one type if given; existing ones are not declared here."""
    for file, tree in trees().items():
        for name, resource in tree.get("resources", {}).items():
            if not resource["existing"] and kind in (None, resource["type"]):
                yield f"{file}: {name}", body(resource["config"])


def body(config: Any) -> Any:
    """What is inside of conditions and loops."""
    while isinstance(config, dict) and set(config) >= {"condition", "config"}:
        config = config["config"]
    return config


def walk(value: Any) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from walk(each)


def strings(value: Any) -> Iterator[str]:
    """All strings and names in a tree."""
    return (each for each in walk(value) if isinstance(each, str))


def functions(value: Any) -> Iterator[str]:
    """Names of the functions that are called in a tree, as pycep spells them."""
    for each in walk(value):
        if isinstance(each, dict) and "function" in each:
            yield each["function"]["type"]


def unquoted(mapping: dict[str, Any]) -> dict[str, Any]:
    """An object's keys without the quotes that pycep leaves on some."""
    return {key.strip("'"): value for key, value in mapping.items()}


def document(name: str) -> Any:
    """A JSON file below infra/."""
    return json.loads((INFRA / name).read_text())
