"""The app that takes uploads: a second one in the same deployment, if it is wanted."""

from __future__ import annotations

from tests.infra import templates
from tools.local.templates import scenarios
from tools.local.templates.__main__ import check

WANTED = {**scenarios.BARE, "QUEUE_UPLOADS_APP": "true"}


def test_the_templates_are_well_formed_with_it() -> None:
    assert check(environments=scenarios.with_uploads()) == []


def test_uploads_have_instances_and_a_name_of_their_own() -> None:
    (queue, calls), (other, uploads) = (templates.sites(WANTED)[name] for name in ("queue", "uploads"))
    assert queue.body["properties"]["serverFarmId"] != other.body["properties"]["serverFarmId"]
    assert calls["UPLOADS_ROOT_URL"] == f"https://{other.name}.azurewebsites.net"
    assert (calls["SERVES"], uploads["SERVES"], uploads["UPLOADS_ROOT_URL"]) == ("calls", "uploads", "")
    assert templates.sites(scenarios.BARE)["queue"][1]["UPLOADS_ROOT_URL"] == ""
    profile = templates.document("profiles/small.json")
    limit = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"
    assert (calls[limit], uploads[limit]) == (profile["settings"][limit], profile["uploads"]["settings"][limit])
    scale = other.body["properties"]["functionAppConfig"]["scaleAndConcurrency"]
    assert (scale["instanceMemoryMB"], scale["alwaysReady"]) == (4096, [])
    assert scale["triggers"]["http"]["perInstanceConcurrency"] == 1, "an instance has the memory for one upload"
    same = ("STORAGE_ACCOUNT_NAME", "MESSAGE_SIGNING_KEYS", "MANAGED_IDENTITY_CLIENT_ID", "APP_VERSION")
    assert {name: calls[name] for name in same} == {name: uploads[name] for name in same}
