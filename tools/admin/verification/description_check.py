"""The deployment against its description: what the templates would make of infra/deployments/, and what Azure has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.admin.verification.azure_checks import site_of, web_settings
from tools.admin.verification.core import Check, Deployment, NotChecked, expect
from tools.local.deployments import description
from tools.local.deployments.differences import GUARDS, at
from tools.local.templates.__main__ import INFRA
from tools.local.templates.deployment import deploy
from tools.local.templates.values import SUBSCRIPTION, Deployed, Reference, Resource, Unknown

OF_THE_PLATFORM = {
    "APP_VERSION",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "AzureWebJobsStorage__clientId",
    "MANAGED_IDENTITY_CLIENT_ID",
}
"""Settings whose values no description knows: the build, and what Azure has made up."""
_SHOWN = 5


def described(deployment: Deployment) -> str:
    """Doors, sizes, alerts, retention and app settings are those of the description."""
    site = site_of(deployment)
    name, location = (deployment.environment.get(each, "") for each in ("AZURE_ENV_NAME", "AZURE_LOCATION"))
    if not name or not location:
        raise NotChecked("AZURE_ENV_NAME, AZURE_LOCATION not set")
    try:
        given = description.read(description.path(name))
    except description.Refused as reason:
        raise NotChecked(str(reason)) from reason
    wanted = deploy(INFRA / "main.bicep", {"location": location, **given, "environmentName": name})
    rename = _names(wanted, site)
    found = list(_differences(deployment, wanted, rename))
    settings = _settings(wanted, rename)
    there = web_settings(deployment, site)
    found += [
        f"{key} is {there.get(key)!r}, not {value!r}" for key, value in settings.items() if there.get(key) != value
    ]
    more = there.keys() - settings.keys() - OF_THE_PLATFORM
    found += [f"{key} is set by nobody's description" for key in sorted(more)]
    expect(not found, f"{len(found)} differences: {'; '.join(found[:_SHOWN])}{'; …' if len(found) > _SHOWN else ''}")
    return f"{len(settings)} settings, and what guards doors, sizes, alerts and times"


class _Rename:
    """From names that the evaluation makes up to those that Azure has made."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._pairs = pairs

    def __call__(self, text: str) -> str:
        for made_up, real in self._pairs.items():
            text = text.replace(made_up, real)
        return text


def _names(wanted: Deployed, site: str) -> _Rename:
    """Generated names end with a token, which the evaluation does not know; the app's name shows it."""
    app = next(each for each in wanted.all_resources() if each.body.get("tags", {}).get("azd-service-name") == "queue")
    prefix, _, token = app.name.rpartition("-")
    real = site.rpartition("/")[2]
    if real == app.name:
        raise NotChecked("the app has a name of its own: what the others are called cannot be told from it")
    if not real.startswith(f"{prefix}-"):
        raise NotChecked(f"{real} is no name that the templates make")
    return _Rename(
        {f"/subscriptions/{SUBSCRIPTION}": site.partition("/resourceGroups/")[0], token: real[len(prefix) + 1 :]}
    )


def _differences(deployment: Deployment, wanted: Deployed, rename: _Rename) -> Iterator[str]:
    for each in wanted.all_resources():
        guards = [guard for guard in GUARDS if guard.type == each.type.lower()]
        if guards:
            there = deployment.arm("GET", rename(each.id), each.version)
            for guard in guards:
                value = at(each.body, guard.path)
                if value is not None and not _is(value, at(there, guard.path), rename):
                    yield f"{_called(each, rename)}: {guard.path} is {at(there, guard.path)!r}, not {value!r}"


def _called(resource: Resource, rename: _Rename) -> str:
    return f"{resource.type.partition('/')[2]} {rename(resource.name)}"


def _is(wanted: Any, there: Any, rename: _Rename) -> bool:
    """Whether Azure has what is wanted; it may have more, and write words in another case."""
    if isinstance(wanted, Unknown | Reference):
        return True
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            _is(value, there.get(key), rename) for key, value in wanted.items() if value is not None
        )
    if isinstance(wanted, list):
        if not isinstance(there, list) or len(there) != len(wanted):
            return not wanted and not there
        return all(_is(one, other, rename) for one, other in zip(wanted, there, strict=True))
    if isinstance(wanted, str):
        return rename(wanted).lower() == str(there).lower()
    return bool(wanted == there)


def _settings(wanted: Deployed, rename: _Rename) -> dict[str, str]:
    found = (each for each in wanted.all_resources() if each.type == "Microsoft.Web/sites/config")
    settings = next(each for each in found if each.body["properties"]["SERVES"] == "calls")
    return {
        name: rename(str(value)) for name, value in settings.body["properties"].items() if name not in OF_THE_PLATFORM
    }


CHECKS = (Check("description", described),)
