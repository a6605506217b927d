"""Writes types.json: `python -m tools.local.templates.extract CLONE`, with a clone of Azure/bicep-types-az.

Of the thousands of types there it takes those that types.json names already, those that the templates use, and those
given with `--add Microsoft.Web/sites@2024-04-01`, with everything that they refer to, and without the descriptions.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.local.state import ROOT
from tools.local.templates import syntax
from tools.local.templates.shapes import FILE

_DESCRIBED = {"ObjectType", "DiscriminatedObjectType", "ResourceType", "ResourceFunctionType"}


def extract(clone: Path, wanted: Iterable[str], commit: str) -> dict[str, Any]:
    """Returns the document: types by pool and index, and versions. Raises KeyError for an unknown type."""
    index = {
        name.lower(): (name, entry["$ref"])
        for name, entry in json.loads((clone / "generated" / "index.json").read_text(encoding="utf-8"))[
            "resources"
        ].items()
    }
    pools: dict[str, dict[str, Any]] = {}
    used: dict[str, Any] = {}
    for each in sorted(set(wanted)):
        name, reference = index[each.lower()]
        path, _, number = reference.partition("#/")
        pool = f"generated/{path}"
        used[each] = {"index": int(number), "name": name, "pool": pool}
        _take(json.loads((clone / pool).read_text(encoding="utf-8")), number, pools.setdefault(pool, {}))
    return {
        "pools": {name: dict(sorted(pool.items())) for name, pool in sorted(pools.items())},
        "source": f"Azure/bicep-types-az@{commit}",
        "used": used,
        "versions": _versions(index, {each.partition("@")[0] for each in used}),
    }


def _take(types: list[dict[str, Any]], number: str, pool: dict[str, Any]) -> None:
    """Copies a type and the types that it refers to. A type that was copied already is skipped: types may be
    recursive."""
    if number in pool:
        return
    pool[number] = _without_descriptions(types[int(number)])
    for reference in _references(pool[number]):
        _take(types, reference.removeprefix("#/"), pool)


def _without_descriptions(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns a type without its descriptions. A property may be named description: only texts are left out."""
    kept = {key: value for key, value in entry.items() if key not in ("description", "functions")}
    for group in ("properties", "baseProperties"):
        if entry["$type"] in _DESCRIBED and group in kept:
            kept[group] = {
                name: {key: value for key, value in each.items() if key != "description"}
                for name, each in kept[group].items()
            }
    return kept


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _versions(index: dict[str, tuple[str, str]], types: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in sorted(types)}
    by_name = {name.lower(): name for name in types}
    for key in sorted(index):
        name, _, version = key.partition("@")
        if name in by_name:
            found[by_name[name]].append(version)
    return found


def in_templates(infra: Path) -> set[str]:
    """Returns the types that templates declare, with their versions."""
    files = (syntax.read(path) for path in sorted(infra.rglob("*.bicep")))
    return {each.target for file in files for each in file.of("resource")}


def main() -> None:
    """Writes types.json."""
    parser = argparse.ArgumentParser(prog="python -m tools.local.templates.extract", description=__doc__)
    parser.add_argument("clone", type=Path)
    arguments = parser.parse_args()
    head = subprocess.run(
        ["git", "-C", str(arguments.clone), "rev-parse", "HEAD"], capture_output=True, encoding="utf-8", check=True
    )
    wanted = {*in_templates(ROOT / "infra"), *in_templates(ROOT / "docs" / "examples")}
    document = extract(arguments.clone, wanted, head.stdout.strip())
    FILE.write_text(
        re.sub(r"\n*$", "\n", json.dumps(document, separators=(",", ":"), sort_keys=True)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
