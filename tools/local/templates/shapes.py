"""Microsoft's resource types, as types.json has them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "types.json"


@dataclass(frozen=True)
class Shape:
    """A type, and the pool that its references are about."""

    pool: str
    index: str

    @property
    def kind(self) -> str:
        """The name of the kind of type: ObjectType, StringType and so on."""
        return str(self.raw["$type"])

    @property
    def raw(self) -> Mapping[str, Any]:
        """The entry in types.json."""
        entry: Mapping[str, Any] = document()["pools"][self.pool][self.index]
        return entry

    def other(self, reference: Mapping[str, str]) -> Shape:
        """Returns the type that a reference in this one means."""
        return Shape(self.pool, reference["$ref"].removeprefix("#/"))

    def properties(self) -> dict[str, tuple[Shape, int]]:
        """Types and flags of all properties that some variant has."""
        raw = self.raw
        match self.kind:
            case "ResourceType":
                return self.other(raw["body"]).properties()
            case "ObjectType":
                own = raw["properties"]
            case "DiscriminatedObjectType":
                found = {
                    name: (self.other(each["type"]), each["flags"]) for name, each in raw["baseProperties"].items()
                }
                for variant in raw["elements"].values():
                    found = {**self.other(variant).properties(), **found}
                return found
            case "UnionType":
                return {name: each for option in self.options() for name, each in option.properties().items()}
            case _:
                return {}
        return {name: (self.other(each["type"]), each["flags"]) for name, each in own.items()}

    def options(self) -> list[Shape]:
        """Returns the members of a union type; the type itself if it is none."""
        if self.kind != "UnionType":
            return [self]
        return [inner for each in self.raw["elements"] for inner in self.other(each).options()]

    def open(self) -> bool:
        """Returns whether the type takes properties that it does not name."""
        return any("additionalProperties" in option.raw or option.kind == "AnyType" for option in self.options())


@functools.cache
def document() -> dict[str, Any]:
    """Returns the content of types.json."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded
