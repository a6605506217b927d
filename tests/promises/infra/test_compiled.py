"""The evaluator agrees with Microsoft's compiler on every resource and property. compiled.json.xz has templates of this
project, and what `bicep snapshot` of the Bicep CLI 0.49.2 made of them in six deployments. Where the compiler is
installed (BICEP, or on the PATH: in CI) the present templates are compared as well."""

from __future__ import annotations

import functools
import json
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.promises.infra import templates
from tests.promises.infra.azure.cloud import as_given
from tools.local.templates import resource_types, shapes
from tools.local.templates.__main__ import DEPLOYMENTS, parameters, write
from tools.local.templates.deployment import deploy
from tools.local.templates.functions import FUNCTIONS, resource_id
from tools.local.templates.values import SUBSCRIPTION, TENANT, answer, guid

BICEP = shutil.which(os.environ.get("BICEP", "bicep"))
NAMES = list(DEPLOYMENTS)


@functools.cache
def _recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(lzma.decompress((Path(__file__).parent / "compiled.json.xz").read_bytes()))
    return document


class _Later:
    """A resource's properties that only Azure knows, as the evaluator makes them up."""

    def __init__(self, identity: str) -> None:
        self._type = "/".join(
            [
                identity.rpartition("/providers/")[2].split("/")[0],
                *identity.rpartition("/providers/")[2].split("/")[1::2],
            ]
        )
        self._name = identity.rpartition("/")[2]

    def __getattr__(self, name: str) -> Any:
        return answer(self._type, self._name, f"properties.{name}")


def _extension(scope: str, kind: str, name: str) -> str:
    return f"{scope}/providers/{kind}/{name}"


def _resource_id(*parts: str) -> str:
    """Implements `resourceId`, of the subscription and the group that are given first."""
    at = next(index for index, part in enumerate(parts) if "/" in part)
    where = "".join(
        f"/{word}/{part}" for word, part in zip(("subscriptions", "resourceGroups"), parts[:at], strict=False)
    )
    return where + resource_id(*parts[at:]).removeprefix(f"/subscriptions/{SUBSCRIPTION}")


_ARM: dict[str, Any] = {
    "reference": lambda identity, *_: _Later(identity),
    "listKeys": lambda *_: SimpleNamespace(keys=[SimpleNamespace(value="(account.listKeys().keys.0.value)")]),
    "environment": lambda: SimpleNamespace(
        suffixes=SimpleNamespace(storage="core.windows.net"),
        authentication=SimpleNamespace(loginEndpoint="https://login.microsoftonline.com/"),
    ),
    "extensionResourceId": _extension,
    "resourceId": _resource_id,
    "guid": guid,
    "format": FUNCTIONS["format"],
    "null": lambda: None,
    "if_": lambda holds, then, otherwise: then if holds else otherwise,
    "equals": lambda one, other: one == other,
    "empty": FUNCTIONS["empty"],
    "not_": lambda holds: not holds,
    "split": FUNCTIONS["split"],
    "filter": lambda items, kept: list(filter(kept, items)),
}


def _settled(value: Any, given: Mapping[str, Any]) -> Any:
    """Returns a value of the snapshot, with its expressions evaluated as Azure would."""
    if isinstance(value, dict):
        return {key: _settled(each, given) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_settled(each, given) for each in value]
    if not isinstance(value, str):
        return value
    if not (value.startswith("[") and value.endswith("]")):
        return value
    python = re.sub(r"\b(if|not)\(", r"\1_(", value[1:-1])
    python = re.sub(r"lambda\('(\w+)', ", r"(lambda \1: ", python)
    python = re.sub(r"lambdaVariables\('(\w+)'\)", r"\1", python)
    return eval(python, {**_ARM, "parameters": lambda name: given.get(name, "")})


def _compared(snapshot: Mapping[str, Any], infra: Path, name: str) -> None:
    given = parameters(DEPLOYMENTS[name], infra)
    evaluated = deploy(infra / "main.bicep", given)
    assert evaluated.all_findings() == []
    mine = {
        each.id: as_given({"type": each.type, "apiVersion": each.version, **each.body, "name": each.name})
        for each in evaluated.all_resources()
    }
    there = [each for each in snapshot["resources"] if _settled(each.get("condition", True), given)]
    theirs = {_settled(each["id"], given): each for each in there}
    assert mine.keys() == theirs.keys()
    for identity, body in mine.items():
        said = {key: each for key, each in theirs[identity].items() if key not in ("id", "condition")}
        wanted = _settled(said, given)
        assert body == {**wanted, "name": body["name"]}, identity
        assert wanted["name"].endswith(body["name"].rpartition("/")[2])
    assert as_given(evaluated.outputs) == _settled(snapshot["outputs"], given)


@pytest.mark.parametrize("name", NAMES)
def test_the_evaluator_makes_of_templates_what_the_compiler_makes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = resource_types.find
    known = {each.partition("@")[0]: each.partition("@")[2] for each in shapes.document()["used"]}
    monkeypatch.setattr(resource_types, "find", lambda kind, _: find(kind, known[kind]))  # versions of another day
    for path, text in _recorded()["sources"].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    _compared(_recorded()["deployed"][name], tmp_path, name)


@pytest.mark.skipif(
    BICEP is None and "REQUIRE_AZURE_TOOLS" not in os.environ, reason="the Bicep compiler is not on the PATH"
)
@pytest.mark.parametrize("name", NAMES)
def test_the_compiler_makes_of_the_templates_of_today_what_the_evaluator_makes(name: str, tmp_path: Path) -> None:
    infra = shutil.copytree(templates.INFRA, tmp_path / "infra")
    write(tmp_path / "given", infra)
    where = ["--tenant-id", TENANT, "--subscription-id", SUBSCRIPTION, "--location", "westeurope"]
    snapshot = [str(BICEP), "snapshot", str(tmp_path / "given" / f"{name}.bicepparam"), "--mode", "overwrite", *where]
    subprocess.run([*snapshot, "--deployment-name", "example"], check=True)
    found = json.loads((tmp_path / "given" / f"{name}.snapshot.json").read_text())
    _compared({"resources": found["predictedResources"], "outputs": found["outputs"]}, infra, name)
