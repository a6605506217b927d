"""An instance has the memory for the bodies that it takes, whoever sends them: the sum of docs/scaling.md."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.validation import MAX_BODY
from shared.base.settings import Settings
from tests.promises.infra import templates
from tools.local.deployments import memory


@pytest.mark.parametrize("profile", templates.PROFILES)
@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, ""),
        ({"uploadsApp": True}, ""),
        ({"profileOverrides": {"httpConcurrency": 400}}, "calls"),
        ({"profileOverrides": {"settings": {"FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": "20000000"}}}, "calls"),
        ({"settingOverrides": {"DEFINITION_CACHE_BYTES": "2000000000"}}, "calls"),
        ({"settingOverrides": {"FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": ""}}, "calls"),
        ({"profileOverrides": {"uploads": {"httpConcurrency": 2}}}, ""),
        ({"uploadsApp": True, "profileOverrides": {"uploads": {"httpConcurrency": 2}}}, "uploads"),
        ({"uploadsApp": True, "profileOverrides": {"uploads": {"instanceMemoryMB": 2048}}}, "uploads"),
    ],
)
def test_an_instance_has_the_memory_for_the_bodies_that_it_may_get(
    profile: str, given: dict[str, Any], wrong: str
) -> None:
    """An instance has the memory for its bodies, also if a description changes it; otherwise azd's hook refuses."""
    found = [each.partition(":")[0] for each in memory.shortages({"profile": profile, **given})]
    assert found == ([f"the app that serves {wrong}"] if wrong else [])


@pytest.mark.parametrize("profile", templates.PROFILES)
def test_the_host_lets_all_bodies_pass_that_an_app_takes(profile: str) -> None:
    """The host's limit lets all bodies pass that an app takes, and a little more, so that the app itself can say that
    one is too large. It is less than Azure's own limit of 210 MB."""
    name, values = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT", templates.document(f"profiles/{profile}.json")
    relayed = Settings.model_fields["artifact_relay_limit_bytes"].default
    assert max(MAX_BODY, relayed) < int(values["settings"][name]) < 1.1 * MAX_BODY
    uploads = values["uploads"]["settings"]
    assert int(uploads["ARTIFACT_RELAY_LIMIT_BYTES"]) < int(uploads[name]) < 210_000_000
