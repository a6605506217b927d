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
from tools.local.templates.values import Deployed, Reference, Unknown

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
    subscription = deployment.environment["AZURE_SUBSCRIPTION_ID"]
    tenant = deployment.arm("GET", f"/subscriptions/{subscription}", "2022-12-01")["tenantId"]
    parameters = {"location": location, **given, "environmentName": name}
    wanted = deploy(INFRA / "main.bicep", parameters, (subscription, tenant))
    settings = {
        each.id.rpartition("/config/")[0]: each.body["properties"]
        for each in wanted.all_resources()
        if each.type == "Microsoft.Web/sites/config"
    }
    expect(site in settings, f"{site} is not an app of {name}: {', '.join(settings)}")
    found = list(_differences(deployment, wanted))
    for app, given in settings.items():
        found += _settings(web_settings(deployment, app), given)
    expect(not found, f"{len(found)} differences: {'; '.join(found[:_SHOWN])}{'; …' if len(found) > _SHOWN else ''}")
    return f"{len(settings[site])} settings, and what guards doors, sizes, alerts and times"


def _settings(there: Mapping[str, str], given: Mapping[str, Any]) -> Iterator[str]:
    said = {key: str(value) for key, value in given.items() if key not in OF_THE_PLATFORM}
    yield from (f"{key} is {there.get(key)!r}, not {value!r}" for key, value in said.items() if there.get(key) != value)
    yield from (f"{key} is set by nobody's description" for key in sorted(there.keys() - said.keys() - OF_THE_PLATFORM))


def _differences(deployment: Deployment, wanted: Deployed) -> Iterator[str]:
    for each in wanted.all_resources():
        guards = [guard for guard in GUARDS if guard.type == each.type.lower()]
        if guards:
            there = deployment.arm("GET", each.id, each.version)
            for guard in guards:
                value = at(each.body, guard.path)
                if value is not None and not _is(value, at(there, guard.path)):
                    called = f"{each.type.partition('/')[2]} {each.name}"
                    yield f"{called}: {guard.path} is {at(there, guard.path)!r}, not {value!r}"


def _is(wanted: Any, there: Any) -> bool:
    """Whether Azure has what is wanted; it may have more, and write words in another case."""
    if isinstance(wanted, Unknown | Reference):
        return True
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            _is(value, there.get(key)) for key, value in wanted.items() if value is not None
        )
    if isinstance(wanted, list):
        if not isinstance(there, list) or len(there) != len(wanted):
            return not wanted and not there
        return all(_is(one, other) for one, other in zip(wanted, there, strict=True))
    if isinstance(wanted, str):
        return wanted.lower() == str(there).lower()
    return bool(wanted == there)


CHECKS = (Check("description", described),)
