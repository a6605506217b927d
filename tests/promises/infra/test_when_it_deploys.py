"""The pipeline deploys the right thing to the right place at the right time, by its expressions for each event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]  # comes without types

from tests.promises.infra import templates
from tests.promises.infra.workflow_expressions import filled_in, holds
from tools.local.state import ROOT

FOLDER = ROOT / ".github" / "workflows"
TESTED = {"github.sha": "abc", "needs.ci.result": "success"}
PUSH = {**TESTED, "github.event_name": "push", "vars.QUEUE_STAGING": "true"}
RELEASE = {
    **PUSH,
    "github.event_name": "release",
    "github.event.release.tag_name": "v1",
    "needs.ci.result": "skipped",
}
BY_HAND = {**TESTED, "github.event_name": "workflow_dispatch", "inputs.environment": "production"}
ROLLBACK = {**BY_HAND, "inputs.run_id": "7", "needs.ci.result": "skipped"}
RELEASED_AGAIN = {**BY_HAND, "inputs.release": "v0", "needs.ci.result": "skipped"}
EVENTS: tuple[tuple[Mapping[str, object], str, str], ...] = (
    (PUSH, "staging", "abc"),
    (RELEASE, "production", "v1"),
    (BY_HAND, "production", "abc"),
    ({**BY_HAND, "inputs.environment": "staging"}, "staging", "abc"),
    (ROLLBACK, "production", "run-7"),
    (RELEASED_AGAIN, "production", "v0"),
)
"""Events, with where they deploy to and the name of what they deploy."""
NOT_TESTED = ("failure", "skipped", "cancelled", None)


def problems(deploy: dict[Any, Any], ci: dict[Any, Any]) -> Iterator[str]:
    """Yields what is wrong with when, where and what is deployed."""
    job = deploy["jobs"]["deploy"]
    on = deploy.get("on") or deploy[True]  # YAML 1.1 reads the key as true
    if on.get("push") != {"branches": ["main"]} or on.get("release") != {"types": ["published"]}:
        yield "something else than a push to main or a published release starts it"
    for given, environment, version in EVENTS:
        yield from _event(deploy, given, environment, version)
    if holds(job["if"], {**PUSH, "vars.QUEUE_STAGING": None}):
        yield "a push deploys to a staging that nobody has set up"
    yield from _tests(deploy["jobs"]["ci"]["if"], ci)
    for result in NOT_TESTED:
        if holds(job["if"], {**PUSH, "needs.ci.result": result}):
            yield f"it deploys when the tests have ended with {result}"
    if deploy["concurrency"]["cancel-in-progress"] is not False:
        yield "a deployment is cancelled half-way by the next one"
    if not job["steps"][-1].get("run", "").endswith("\ninfra/hooks/smoke-test.sh\n"):
        yield "it does not end with the smoke test"
    yield from _package(job["steps"], ci["jobs"]["package"]["steps"])
    for document in (deploy, ci):
        yield from _after_errors(document)


def _tests(tested: str, ci: dict[Any, Any]) -> Iterator[str]:
    """Yields what is deployed without a test, or tested twice."""
    for given in (RELEASE, ROLLBACK, RELEASED_AGAIN):
        if holds(tested, given):
            yield "it tests and packages again what was packaged before"
    if not (holds(tested, PUSH) and holds(tested, BY_HAND)):
        yield "it does not test what it deploys"
    if "push" in (ci.get("on") or ci[True]):
        yield "a push is tested twice"


def _event(deploy: dict[Any, Any], given: Mapping[str, object], environment: str, version: str) -> Iterator[str]:
    job, event = deploy["jobs"]["deploy"], given["github.event_name"]
    if not holds(job["if"], given):
        yield f"{event} deploys nothing"
    if holds(job["if"], {**given, "cancelled": True}):
        yield f"{event} deploys although it was cancelled"
    if (where := filled_in(job["environment"], given)) != environment:
        yield f"{event} deploys to {where}"
    if filled_in(deploy["concurrency"]["group"], given) != f"deploy-{environment}":
        yield f"{event} runs beside another deployment to {environment}"
    if (name := filled_in(job["env"]["QUEUE_BUILD"], given)) != version:
        yield f"{event} calls what it deploys {name}"


def _after_errors(document: dict[Any, Any]) -> Iterator[str]:
    for job in document["jobs"].values():
        for step in (job, *job.get("steps", [])):
            if "continue-on-error" in step or "|| true" in step.get("run", "") or "always()" in step.get("if", ""):
                yield f"it goes on after an error: {step.get('name', step.get('run', ''))}"


def _package(deploying: list[dict[str, Any]], making: list[dict[str, Any]]) -> Iterator[str]:
    """Yields a package that is not made by the app's Python, or is not where the steps that deploy it look."""
    site = templates.resource("Microsoft.Web/sites")["properties"]["functionAppConfig"]["runtime"]
    (python,) = (step["with"]["python-version"] for step in making if "setup-python" in step.get("uses", ""))
    if python != site["version"]:
        yield f"the package is made for Python {python}, and the app runs on {site['version']}"
    (folder,) = (step["with"]["path"] for step in deploying if "download-artifact" in step.get("uses", ""))
    for step in deploying:
        if "queue.zip" in step.get("run", "") and f"{folder}/queue.zip" not in step["run"]:
            yield f"the package is in {folder}, where it is not looked for"


def _load(name: str) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return document


def test_what_was_tested_is_deployed_where_the_event_says() -> None:
    assert list(problems(_load("deploy.yml"), _load("ci.yml"))) == []
