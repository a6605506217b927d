"""The templates evaluate, in each scenario, to what Azure takes."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.infra import templates
from tools.local.templates import __main__ as command
from tools.local.templates import conventions, flex, limits, meaning, names, naming, scenarios, secrecy
from tools.local.templates.__main__ import NOT_CHECKED, check, evaluate
from tools.local.templates.values import Deployed, Resource, Value

SCENARIO = pytest.mark.parametrize("scenario", templates.SCENARIOS)


def test_names_are_declared_and_used() -> None:
    assert list(map(str, names.problems(templates.INFRA / "main.bicep"))) == []


@SCENARIO
def test_every_resource_is_of_its_type(scenario: str) -> None:
    deployed = templates.deployed(scenario)
    assert list(map(str, deployed.all_findings())) == []
    assert len(list(deployed.all_resources())) > 60


@SCENARIO
def test_flex_consumption_takes_it(scenario: str) -> None:
    assert list(map(str, flex.problems(templates.deployed(scenario)))) == []


@SCENARIO
def test_parts_fit_together_and_come_in_time(scenario: str) -> None:
    assert list(map(str, meaning.problems(templates.deployed(scenario)))) == []


@SCENARIO
def test_values_are_within_what_azure_takes(scenario: str) -> None:
    assert list(map(str, limits.problems(templates.deployed(scenario)))) == []


@SCENARIO
def test_others_find_what_they_expect(scenario: str) -> None:
    assert list(map(str, conventions.problems(templates.deployed(scenario)))) == []


def test_secure_parameters_stay_secure() -> None:
    assert list(map(str, secrecy.problems(templates.INFRA / "main.bicep"))) == []


@pytest.mark.parametrize(
    ("text", "hours"), [("PT1H", 1), ("P1D", 24), ("P1DT2H30M", 26.5), ("P1W", 168), ("PT90M", 1.5), ("PT36S", 0.01)]
)
def test_durations(text: str, hours: float) -> None:
    assert limits.duration(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1", "P1H", "P1DT", "PT1H ", "-PT1H", "pt1h"])
def test_what_is_no_duration(text: str) -> None:
    assert limits.duration(text) is None


def test_what_is_not_checked_is_known() -> None:
    """A value that only Azure knows goes unchecked: this is all of them."""
    unknown = {line for scenario in templates.SCENARIOS for line in meaning.unknowns(templates.deployed(scenario))}
    assert {line.partition(" ")[2] for line in unknown} == {
        "Microsoft.KeyVault/vaults/secrets properties.value: account.listKeys().keys.0.value"
    }
    assert NOT_CHECKED


ENVIRONMENTS = [
    "q",
    "my-queue",
    "My_Queue.v2(test)",
    "0-starts-with-a-digit",
    "-",
    "sb",
    "x" * 64,
    "UPPER" * 12,
    "a--b",
    "queue-mgmt",
]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_names_are_legal_for_long_and_odd_environments(environment: str) -> None:
    deployed = evaluate({**scenarios.CLOSED, "AZURE_ENV_NAME": environment, "QUEUE_PROFILE": "large"})
    assert list(map(str, deployed.all_findings())) == []
    assert [str(each) for resource in deployed.all_resources() for each in naming.problems(resource)] == []


def test_an_environment_that_is_too_long_is_refused_by_the_template() -> None:
    deployed = evaluate({**scenarios.BARE, "AZURE_ENV_NAME": "x" * 65})
    assert any("breaks its maxLength of 64" in str(each) for each in deployed.all_findings())


def _taken(deployed: Deployed) -> set[str]:
    return {each.name for each in deployed.all_resources() if each.type in naming.GLOBAL}


def test_two_deployments_in_one_subscription_do_not_collide() -> None:
    first, second, elsewhere = (
        evaluate({**scenarios.CLOSED, "AZURE_ENV_NAME": name, "AZURE_LOCATION": location})
        for name, location in (("one", "westeurope"), ("two", "westeurope"), ("one", "eastus2"))
    )
    assert len(_taken(first)) == 4
    assert not _taken(first) & _taken(second)
    assert not _taken(first) & _taken(elsewhere)
    assert not {each.id for each in first.all_resources()} & {each.id for each in second.all_resources()}


def _contents(resources: list[Resource]) -> dict[str, Value]:
    return {each.id: each.body for each in resources}


@SCENARIO
def test_a_second_deployment_changes_nothing(scenario: str) -> None:
    """Secrets are given once: without them the vault keeps what it has, and everything else is as it was."""
    again = {**templates.SCENARIOS[scenario], **dict.fromkeys(scenarios.SECRETS, "")}
    first = _contents(list(templates.deployed(scenario).all_resources()))
    second = _contents(list(evaluate(again).all_resources()))
    assert {key: first[key] for key in second} == second
    assert {key.rpartition("/")[2] for key in first.keys() - second.keys()} <= {
        "root-access-token",
        "message-signing-keys",
        "access-token-keys",
    }


def test_the_command_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    (tmp_path / "main.bicep").write_text("targetScope = 'tenant'\nparam unused string = ''\noutput x int = nothing\n")
    (tmp_path / "main.parameters.json").write_text('{"parameters": {}}')
    assert check(tmp_path, {"one": {}}) == [
        "main.bicep:3: there is no nothing",
        "main.bicep:2: unused is not used",
    ]
    (tmp_path / "main.bicep").write_text("param x string = \n")
    assert check(tmp_path, {"one": {}}) == ["main.bicep:1: this cannot be parsed"]


def test_the_command_lists_what_was_not_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m tools.local.templates", "--unchecked"])
    assert command.main() == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("0 findings. Not checked: ")
    assert rest == [line for line in rest if line.startswith("storagekey.bicep:")] != []
