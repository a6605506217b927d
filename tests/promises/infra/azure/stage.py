"""A checkout on a stage: the real azd, with doubles of everything else that its hooks and the runbooks call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.promises.infra.azure import proxy
from tests.promises.infra.azure.arm import Arm, answered
from tests.promises.infra.azure.az import Az
from tests.promises.infra.azure.cloud import Cloud
from tools.local import package
from tools.local.state import ROOT
from tools.local.templates import syntax

AZD = shutil.which(os.environ.get("AZD", "azd"))
"""The real azd: `AZD`, or the one on the PATH."""
_CALL = """#!{python} -IS
import json, os, sys, urllib.request
about = {{"tool": "{tool}", "arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
open = urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open
code, output, errors = json.load(open("{url}/played", json.dumps(about).encode()))
sys.stdout.write(output)
sys.stderr.write(errors)
sys.exit(code)
"""
_DEV = """#!/bin/sh
# An account of the stage is one of an emulator, if there is a file of its name.
account="{accounts}/${{STORAGE_ACCOUNT_NAME:-}}"
[ ! -f "$account" ] || export STORAGE_CONNECTION_STRING="$(cat "$account")"
[ "$1" != package ] || set -- "$@" --sources
"{python}" -m tools.local.cli "$@" || exit
[ "$1${{COMPILED:-}}" != package1 ] || {{
    mkdir dist/queue/shared/__pycache__
    touch dist/queue/shared/__pycache__/compiled.pyc
}}
"""
Played = Callable[[list[str], Mapping[str, str]], tuple[int, str, str]]


@dataclass
class Stage:
    """A stage: a home without anything in it, a checkout, and Azure."""

    home: Path
    checkout: Path
    cloud: Cloud
    arm: Arm
    az: Az
    tools: dict[str, Played]
    """Doubles of tools besides az: functions from arguments and environment to exit code, output and errors."""
    environment: dict[str, str]
    called: list[str]
    """The calls of all doubles, in order."""
    values: dict[str, str]
    """azd's environment, if azd has a double."""

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a script in the checkout with bash, as a person would; it stops at the first command that fails."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.checkout,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def skeleton(main: Path) -> dict[str, Any]:
    """Returns what azd reads of a compiled template: its parameters and outputs."""
    file = syntax.read(main)
    parameters: dict[str, Any] = {}
    for each in file.of("param"):
        secure = "secure" if each.decorator("secure") else ""
        parameters[each.name] = {"type": f"{secure}{each.target}" if secure else each.target}
        if each.value is not None:
            # azd looks only whether there is one.
            empty: Any = {"string": "", "bool": False, "int": 0, "array": [], "object": {}}[each.target]
            parameters[each.name]["defaultValue"] = empty
    parameters["location"]["metadata"] = {"azd": {"type": "location"}}
    return {
        "$schema": "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": parameters,
        "resources": [{"type": "Microsoft.Resources/resourceGroups", "apiVersion": "2025-04-01", "name": "group"}],
        "outputs": {each.name: {"type": each.target, "value": ""} for each in file.of("output")},
    }


def _checkout(folder: Path) -> Path:
    """Copies the files that git has of this checkout, with a ./dev that needs no set-up and packs no dependencies."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in {*filter(None, listed.split("\0")), *map(str, package.product_files(ROOT))}:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / "dev").write_text(_DEV.format(python=sys.executable, accounts=folder.parent / "accounts"))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@contextmanager
def stage(folder: Path, checkout: Path | None = None) -> Iterator[Stage]:
    """Yields a stage in an empty folder. With a given checkout, azd has a double as well."""
    home, tools, certificates = (folder / name for name in ("home", "tools", "certificates"))
    for each in (home, tools, certificates, folder / "accounts"):
        each.mkdir()
    values: dict[str, str] = {}
    real = AZD if checkout is None else None
    if checkout is None:
        (folder / "checkout").mkdir()
        checkout = _checkout(folder / "checkout")
    cloud = Cloud(checkout / "infra")
    arm, az, called = Arm(cloud), Az(cloud), list[str]()
    played: dict[str, Played] = {
        "az": lambda arguments, _: az.run(arguments),
        "bicep": lambda arguments, _: _bicep(arguments),
        "azd": lambda arguments, _: _azd(arguments, values),
    }

    def answer(request: proxy.Request) -> proxy.Answer:
        if not request.host and request.path == "/played":
            about = json.loads(request.body)
            called.append(" ".join([about["tool"], *about["arguments"]]))
            return answered(200, played[about["tool"]](about["arguments"], about["environment"]))
        return arm(request)

    with proxy.listening(certificates, answer) as (url, authority):
        for tool in ("az", "azcopy", "bicep", "gh", *(() if real else ("azd",))):
            (tools / tool).write_text(_CALL.format(python=sys.executable, tool=tool, url=url))
            (tools / tool).chmod(0o755)
        if real:
            (tools / "azd").symlink_to(real)
        yield Stage(
            home=home,
            checkout=checkout,
            cloud=cloud,
            arm=arm,
            az=az,
            tools=played,
            called=called,
            values=values,
            environment={
                "PATH": os.pathsep.join((str(tools), str(Path(sys.executable).parent), "/usr/bin", "/bin")),
                "HOME": str(home),
                "HTTPS_PROXY": url,
                "SSL_CERT_FILE": str(authority),
                "REQUESTS_CA_BUNDLE": str(authority),
                "AZD_AUTH_ENDPOINT": url,
                "AZD_AUTH_KEY": "key",
                "AZD_BICEP_TOOL_PATH": str(tools / "bicep"),
                "AZD_SKIP_UPDATE_CHECK": "true",
                "AZD_SKIP_FIRST_RUN": "true",
                "AZURE_DEV_COLLECT_TELEMETRY": "no",
                "RESOLVE_SECONDS": "0",
                "SMOKE_SECONDS": "0",
            },
        )


def _azd(arguments: list[str], values: dict[str, str]) -> tuple[int, str, str]:
    match arguments:
        case ["env", "set", *pairs] if all("=" in each for each in pairs):
            values.update({name: value for name, _, value in (each.partition("=") for each in pairs)})
            return 0, "", ""
        case ["env", "get-value", name] if name in values:
            return 0, f"{values[name]}\n", ""
    return 1, "", f"not played: {arguments}"


def _bicep(arguments: list[str]) -> tuple[int, str, str]:
    match arguments:
        case ["--version"]:
            return 0, "Bicep CLI version 0.49.2 (00000000)\n", ""
        case ["build", file, "--stdout"]:
            return 0, json.dumps(skeleton(Path(file))), ""
    return 2, "", f"not played: {arguments}"
