"""What the reference worker makes of payloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import worker
from worker.mounts import check
from worker.payload import MalformedPayload, Payload, parse, schema

LS: dict[str, Any] = {"command": ["ls"]}
TASK = "KTBKfEgxR5GdfIIREQIvFQ"
PUBLISHED = Path(worker.__file__).with_name("payload.schema.json")
VALIDATOR = jsonschema_rs.validator_for(schema())


def test_the_command_alone_is_enough() -> None:
    payload = parse({"command": ["true"]})
    assert payload.command == [["true"]]
    assert payload.max_run_time is None
    assert (payload.features.live_log, payload.features.taskcluster_proxy) == (True, False)


EVERYTHING: dict[str, Any] = {
    "command": [["sh", "-c", "make"], ["make", "install"]],
    "env": {"CC": "gcc", "_X1": ""},
    "maxRunTime": 60,
    "artifacts": [
        {
            "type": "file",
            "path": "out/build.tar",
            "name": "public/build.tar",
            "expires": "2030-01-01T00:00:00.000Z",
            "contentType": "application/x-tar",
            "contentEncoding": "gzip",
            "optional": True,
        },
        {"type": "directory", "path": "out"},
    ],
    "mounts": [
        {"file": "a", "content": {"taskId": TASK, "artifact": "public/a.xz", "sha256": "0" * 64}, "format": "xz"},
        {"file": "b", "content": {"raw": "text"}},
        {"directory": "c", "content": {"url": "https://example.com/c.zip"}, "format": "zip"},
        {"directory": "d", "content": {"namespace": "x.y", "artifact": "public/d"}, "format": "tar.zst"},
        {"directory": "e", "cacheName": "pip", "content": {"base64": "AAAA"}, "format": "tar.gz"},
        {"directory": "f", "cacheName": "cargo"},
    ],
    "onExitStatus": {"retry": [3], "purgeCaches": [0, 4]},
    "features": {"taskclusterProxy": True, "liveLog": False, "backingLog": False},
    "logs": {"live": "public/a.log", "backing": "public/b.log"},
    "osGroups": [],
}


def test_every_property_is_taken() -> None:
    payload = parse(EVERYTHING)
    assert payload.model_dump(by_alias=True, exclude_unset=True, warnings=False) == EVERYTHING
    assert VALIDATOR.is_valid(EVERYTHING)


def test_short_forms() -> None:
    short = {"command": ["sh", "-c", "make"], "artifacts": {"public/build.tar": "out/build.tar"}}
    long = {
        "command": [["sh", "-c", "make"]],
        "artifacts": [{"type": "file", "name": "public/build.tar", "path": "out/build.tar"}],
    }
    assert parse(short) == parse(long)
    assert VALIDATOR.is_valid(short)


def _mount(**changes: Any) -> dict[str, Any]:
    return {**LS, "mounts": [{name: value for name, value in changes.items() if value is not None}]}


def _artifact(**changes: Any) -> dict[str, Any]:
    return {**LS, "artifacts": [{"type": "file", "path": "a", **changes}]}


RAW = {"raw": ""}


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ([], "payload:"),
        (None, "payload:"),
        ({}, "payload.command: Field required"),
        ({"command": []}, "payload.command:"),
        ({"command": [[]]}, "payload.command[0]:"),
        ({"command": "ls"}, "payload.command:"),
        ({"command": ["ls", 1]}, "payload.command[0][1]:"),
        ({"command": ["a\0b"]}, "payload.command[0][0]:"),
        ({**LS, "env": ["A=b"]}, "payload.env:"),
        ({**LS, "env": {"A": 1}}, "payload.env.A:"),
        ({**LS, "env": {"A=B": "1"}}, "payload.env.A=B:"),
        ({**LS, "env": {"A": "\0"}}, "payload.env.A:"),
        ({**LS, "maxRunTime": 0}, "payload.maxRunTime:"),
        ({**LS, "maxRunTime": True}, "payload.maxRunTime:"),
        ({**LS, "maxRunTime": "60"}, "payload.maxRunTime:"),
        ({**LS, "maxRunTime": float("inf")}, "payload.maxRunTime:"),
        ({**LS, "artifacts": {"a": "/etc/passwd"}}, "payload.artifacts[0].path: must be a path inside"),
        ({**LS, "artifacts": {"a": "../a"}}, "payload.artifacts[0].path: must be a path inside"),
        ({**LS, "artifacts": {"a": ""}}, "payload.artifacts[0].path:"),
        ({**LS, "artifacts": {"a": 1}}, "payload.artifacts[0].path:"),
        ({**LS, "artifacts": {"é": "e"}}, "payload.artifacts[0].name:"),
        (_artifact(type="link"), "payload.artifacts[0].type:"),
        (_artifact(expires="tomorrow"), "payload.artifacts[0].expires:"),
        (_artifact(contentEncoding="br"), "payload.artifacts[0].contentEncoding:"),
        (_mount(), "payload.mounts[0]: must have one of file, cacheName, directory"),
        (_mount(file="a"), "payload.mounts[0].content: Field required"),
        (_mount(file="/a", content=RAW), "payload.mounts[0].file: must be a path inside"),
        (_mount(file="a", content={}), "payload.mounts[0].content: must have one of taskId"),
        (_mount(file="a", content={"taskId": "x", "artifact": "a"}), "payload.mounts[0].content.taskId:"),
        (_mount(file="a", content={"url": "file:///etc/passwd"}), "payload.mounts[0].content.url:"),
        (_mount(file="a", content={"url": "https://a/b", "sha256": "x"}), "payload.mounts[0].content.sha256:"),
        (_mount(file="a", content={"base64": "?"}), "payload.mounts[0].content.base64:"),
        (_mount(file="a", content={"raw": "x" * 65537}), "payload.mounts[0].content.raw:"),
        (_mount(directory="a", content=RAW), "payload.mounts[0].format: Field required"),
        (_mount(directory="a", content=RAW, format="rar"), "payload.mounts[0].format:"),
        (_mount(directory="..", cacheName="a"), "payload.mounts[0].directory: must be a path inside"),
        (_mount(directory="a", cacheName="a", content=RAW), "payload.mounts[0]: a cache has both"),
        ({**LS, "onExitStatus": {"retry": [0]}}, "payload.onExitStatus.retry[0]:"),
        ({**LS, "features": {"chainOfTrust": True}}, "payload.features.chainOfTrust:"),
        ({**LS, "osGroups": ["docker"]}, "payload.osGroups:"),
        ({**LS, "image": "ubuntu"}, "payload.image:"),
    ],
)
def test_what_is_wrong_is_named(payload: Any, named: str) -> None:
    with pytest.raises(MalformedPayload) as refused:
        parse(payload)
    assert named in str(refused.value)


def test_everything_that_is_wrong_is_listed() -> None:
    with pytest.raises(MalformedPayload) as refused:
        parse({"command": [], "env": 1, "maxRunTime": -1, "artifacts": 2, "more": 3})
    assert len(str(refused.value).splitlines()) == 5


def test_the_workers_time_limit() -> None:
    assert parse(LS, most_run_time=60).max_run_time == 60
    assert parse({**LS, "maxRunTime": 30}, most_run_time=60).max_run_time == 30
    with pytest.raises(MalformedPayload, match="this worker's limit of 60 s"):
        parse({**LS, "maxRunTime": 61}, most_run_time=60)


CACHE = parse(_mount(directory="a", cacheName="project-pip"))
ARTIFACT = parse(_mount(file="a", content={"taskId": TASK, "artifact": "public/a"}))


@pytest.mark.parametrize("scope", ["generic-worker:cache:project-pip", "generic-worker:cache:project-*", "*"])
def test_a_cache_needs_its_scope(scope: str) -> None:
    check(CACHE, {"scopes": ["queue:x", scope]})


@pytest.mark.parametrize(
    ("payload", "definition", "missing"),
    [
        (CACHE, {}, "the task needs the scope generic-worker:cache:project-pip"),
        (CACHE, {"scopes": ["generic-worker:cache:project-pi", "generic-worker:cache:a*"]}, "needs the scope"),
        (ARTIFACT, {"dependencies": []}, f"task.dependencies must include {TASK}"),
    ],
)
def test_what_a_mount_lacks_is_named(payload: Payload, definition: dict[str, Any], missing: str) -> None:
    with pytest.raises(MalformedPayload) as refused:
        check(payload, definition)
    assert missing in str(refused.value)


def test_an_artifact_of_a_dependency_can_be_mounted() -> None:
    check(ARTIFACT, {"dependencies": [TASK]})


def test_the_published_schema_is_the_one_that_payloads_are_validated_by() -> None:
    assert json.loads(PUBLISHED.read_text()) == schema(), "write it: python -m worker --payload-schema"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_ALMOST = st.fixed_dictionaries({}, optional=dict.fromkeys(EVERYTHING, _JSON))


@given(_JSON | _ALMOST)
def test_any_json_is_run_or_refused_with_words(value: Any) -> None:
    try:
        payload = parse(value)
    except MalformedPayload as refused:
        assert str(refused)
    else:
        assert all(payload.command)
        assert VALIDATOR.is_valid(value)
