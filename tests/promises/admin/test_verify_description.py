"""`verify` compares a deployment with its description: what somebody has changed by hand is named."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.promises.infra.azure.cloud import Cloud
from tools.admin.verification import description_check
from tools.admin.verification.core import Deployment, Outcome, run
from tools.local.deployments import description
from tools.local.templates.__main__ import INFRA
from tools.local.templates.values import SUBSCRIPTION, TENANT, unique_string

GIVEN = {**description.read(description.path("example")), "environmentName": "example"}
TOKEN = unique_string(f"/subscriptions/{SUBSCRIPTION}", "example", "westeurope")
APP = {
    "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
    "AZURE_RESOURCE_GROUP": "rg-example",
    "AZURE_FUNCTION_APP_NAME": f"func-{TOKEN}",
    "AZURE_ENV_NAME": "example",
    "AZURE_LOCATION": "westeurope",
}
Bodies = dict[str, dict[str, Any]]


def _azure() -> Bodies:
    """Returns what Azure has after a deployment of the example, by id in lower case."""
    cloud = Cloud(INFRA)
    cloud.deploy("example", {"properties": {"parameters": {name: {"value": each} for name, each in GIVEN.items()}}})
    return {**cloud.resources, f"/subscriptions/{SUBSCRIPTION}": {"tenantId": TENANT}}


AZURE = _azure()


def _outcome(bodies: Bodies, environment: Mapping[str, str] = APP) -> Outcome:
    def arm(method: str, path: str, version: str, query: Mapping[str, str] | None = None) -> Any:
        assert version
        return bodies[path.lower().removesuffix("/list")]

    deployment = Deployment(environment)
    deployment.arm = arm  # type: ignore[method-assign]  # a stand-in
    (outcome,) = run(deployment, description_check.CHECKS)
    return outcome


def test_what_was_deployed_is_what_is_described() -> None:
    outcome = _outcome(AZURE)
    assert (outcome.result, "settings" in outcome.found) == ("holds", True), outcome


def _change(end: str, path: str, value: Any) -> Callable[[Bodies], None]:
    def change(bodies: Bodies) -> None:
        (name,) = (each for each in bodies if each.endswith(end))
        body: Any = bodies[name]
        *way, last = path.split(".")
        for step in way:
            body = body[int(step) if isinstance(body, list) else step]
        body[last] = value

    return change


PLANTS: list[tuple[str, Callable[[Bodies], None]]] = [
    ("publicNetworkAccess is 'Enabled'", _change(f"/st{TOKEN}", "properties.publicNetworkAccess", "Enabled")),
    ("defaultAction is 'Allow'", _change(f"/vaults/kv-{TOKEN}", "properties.networkAcls.defaultAction", "Allow")),
    ("capacity is 1, not 2", _change(f"/sb-{TOKEN}", "sku.capacity", 1)),
    ("enabled is False", _change("-poison-messages", "properties.enabled", False)),
    ("criteria.allOf is", _change("-timer-lateness", "properties.criteria.allOf.0.threshold", 9000)),
    ("emailReceivers is []", _change(f"/ag-{TOKEN}", "properties.emailReceivers", [])),
    ("retentionInDays is 30", _change(f"/log-{TOKEN}", "properties.retentionInDays", 30)),
    ("POLL_VISIBILITY_SECONDS is '9'", _change("/appsettings", "properties.POLL_VISIBILITY_SECONDS", "9")),
    ("LOG_LEVEL_BY_HAND is set by nobody", _change("/appsettings", "properties.LOG_LEVEL_BY_HAND", "DEBUG")),
]


@pytest.mark.parametrize(("says", "plant"), PLANTS, ids=[says for says, _ in PLANTS])
def test_what_was_changed_by_hand_is_named(says: str, plant: Callable[[Bodies], None]) -> None:
    bodies = copy.deepcopy(AZURE)
    plant(bodies)
    outcome = _outcome(bodies)
    assert outcome.result == "differs", outcome
    assert outcome.found.startswith("1 differences: ")
    assert says in outcome.found


@pytest.mark.parametrize(
    ("change", "says"), [({"AZURE_ENV_NAME": ""}, "not set"), ({"AZURE_ENV_NAME": "no-such"}, "there is no ")]
)
def test_what_it_cannot_compare_it_says(change: dict[str, str], says: str) -> None:
    outcome = _outcome(AZURE, {**APP, **change})
    assert outcome.result == "not checked"
    assert says in outcome.found


def test_an_app_of_another_deployment_is_not_compared() -> None:
    outcome = _outcome(AZURE, {**APP, "AZURE_FUNCTION_APP_NAME": "my-app"})
    assert (outcome.result, "is not an app of example" in outcome.found) == ("differs", True)
