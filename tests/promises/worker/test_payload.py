"""What the reference worker makes of payloads."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import payload as module
from worker.context import Json, TaskException
from worker.payload import MOST_PROBLEMS, SCHEMA

LS: dict[str, Any] = {"command": ["ls"]}
TASK = "KTBKfEgxR5GdfIIREQIvFQ"


def parse(payload: Any, most_run_time: float | None = None, **task: Any) -> Json:
    task = {"scopes": ["generic-worker:cache:*"], "dependencies": [TASK], **task}
    return module.parse({"payload": payload, **task}, most_run_time=most_run_time)


def test_the_command_alone_is_enough() -> None:
    assert parse({"command": ["true"]}) == {
        "command": [["true"]],
        "env": {},
        "mounts": [],
        "artifacts": [],
        "onExitStatus": {"retry": [], "purgeCaches": []},
        "features": {"liveLog": True, "backingLog": True, "taskclusterProxy": False},
        "logs": ["public/logs/live.log", "public/logs/live_backing.log"],
    }


def test_the_schema_is_one() -> None:
    jsonschema_rs.meta.validate(SCHEMA)


EVERYTHING: dict[str, Any] = {
    "command": [["sh", "-c", "make"], ["make", "install"]],
    "env": {"CC": "gcc", "_X1": ""},
    "maxRunTime": 60,
    "artifacts": [
        {
            "type": "file",
            "path": "out/build.tar",
            "name": "public/build.tar",
            "expires": "2030-01-01T01:00:00.5+01:00",
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
    assert parse(EVERYTHING) == {**EVERYTHING, "logs": []}
    for on, names in ({"liveLog": True}, ["public/a.log"]), ({"backingLog": True}, ["public/b.log"]):
        assert parse({**EVERYTHING, "features": {"liveLog": False, "backingLog": False, **on}})["logs"] == names


OF_GENERIC_WORKER: dict[str, Any] = {
    "features": {
        "allowPtrace": False,
        "chainOfTrust": False,
        "hideCmdWindow": True,
        "interactive": False,
        "loopbackAudio": False,
        "loopbackVideo": False,
        "resourceMonitor": True,
        "runAsAdministrator": False,
        "runTaskAsCurrentUser": False,
    },
    "osGroups": [],
    "rdpInfo": "",
    "supersederUrl": "https://example.com",
    "taskclusterProxyInterface": "localhost",
}
OFF = [name for name, is_on in OF_GENERIC_WORKER["features"].items() if not is_on]


def test_what_generic_worker_does_is_accepted_where_it_is_off_or_empty() -> None:
    assert parse({**LS, **OF_GENERIC_WORKER})["features"].items() >= OF_GENERIC_WORKER["features"].items()


@pytest.mark.parametrize(
    ("more", "where"),
    [
        *(({"features": {name: True}}, f"features.{name}") for name in OFF),
        ({"osGroups": ["docker"]}, "osGroups"),
        ({"rdpInfo": "private/rdp.json"}, "rdpInfo"),
        ({"taskclusterProxyInterface": "docker-bridge"}, "taskclusterProxyInterface"),
    ],
)  # fmt: skip
def test_what_generic_worker_does_is_refused_with_a_sentence_where_it_matters(more: Any, where: str) -> None:
    with pytest.raises(TaskException) as refused:
        parse({**LS, **more})
    assert str(refused.value) == f"payload.{where}: this worker cannot do that, generic-worker can (worker/README.md)"


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
        ({}, 'payload: "command" is a required'),
        ({"command": []}, "payload.command:"),
        ({"command": [[]]}, "payload.command[0]:"),
        ({"command": "ls"}, "payload.command:"),
        ({"command": ["ls", 1]}, "payload.command[1]:"),
        ({"command": ["a\0b"]}, "payload.command[0]:"),
        ({**LS, "env": ["A=b"]}, "payload.env:"),
        ({**LS, "env": {"A": 1}}, "payload.env.A:"),
        ({**LS, "env": {"A=B": "1"}}, 'payload.env: "A=B"'),
        ({**LS, "env": {"A": "\0"}}, "payload.env.A:"),
        ({**LS, "maxRunTime": 0}, "payload.maxRunTime:"),
        ({**LS, "maxRunTime": True}, "payload.maxRunTime:"),
        ({**LS, "maxRunTime": "60"}, "payload.maxRunTime:"),
        ({**LS, "maxRunTime": float("inf")}, "payload.maxRunTime:"),
        ({**LS, "artifacts": {"a": "/etc/passwd"}}, "payload.artifacts.a: must be a path inside"),
        *(
            ({**LS, "artifacts": {"a": path}}, "payload.artifacts.a: must be")
            for path in ("../a", "b/..", "..", "a\0b")
        ),
        (_artifact(path="a/../../b"), "payload.artifacts[0].path: must be a path inside"),
        ({**LS, "artifacts": {"a": ""}}, "payload.artifacts.a:"),
        ({**LS, "artifacts": {"a": 1}}, "payload.artifacts.a:"),
        ({**LS, "artifacts": {"é": "e"}}, 'payload.artifacts: "é"'),
        (_artifact(type="link"), "payload.artifacts[0].type:"),
        *(
            (_artifact(expires=time), "payload.artifacts[0].expires:")
            for time in ("tomorrow", "2030-01-01T00:00:00", "2030-02-30T00:00:00Z", "0001-01-01T00:00:00+23:00")
        ),
        (_artifact(contentEncoding="br"), "payload.artifacts[0].contentEncoding:"),
        (_mount(), 'payload.mounts[0]: "directory" is a required'),
        (_mount(file="a"), 'payload.mounts[0]: "content" is a required'),
        (_mount(file="/a", content=RAW), "payload.mounts[0].file: must be a path inside"),
        (_mount(file="a", content={}), 'payload.mounts[0].content: "base64" is a required'),
        (_mount(file="a", content={"taskId": "x", "artifact": "a"}), "payload.mounts[0].content.taskId:"),
        (_mount(file="a", content={"url": "file:///etc/passwd"}), "payload.mounts[0].content.url:"),
        (_mount(file="a", content={"url": "https://a/b", "sha256": "x"}), "payload.mounts[0].content.sha256:"),
        (_mount(file="a", content={"base64": "AAAAA"}), "payload.mounts[0].content.base64:"),
        (_mount(file="a", content={"raw": "x" * 65537}), "payload.mounts[0].content.raw:"),
        (_mount(directory="a", content=RAW), 'payload.mounts[0]: "format" is a required'),
        (_mount(directory="a", content=RAW, format="rar"), "payload.mounts[0].format:"),
        (_mount(directory="..", cacheName="a"), "payload.mounts[0].directory: must be a path inside"),
        (_mount(directory="a", cacheName="a", content=RAW), 'payload.mounts[0]: "format" is a required'),
        ({**LS, "onExitStatus": {"retry": [0]}}, "payload.onExitStatus.retry[0]:"),
        ({**LS, "image": "ubuntu"}, "('image' was unexpected)"),
    ],
)
def test_what_is_wrong_is_named(payload: Any, named: str) -> None:
    with pytest.raises(TaskException) as refused:
        parse(payload)
    assert named in str(refused.value)


def test_what_is_wrong_is_listed_as_far_as_somebody_reads_it() -> None:
    with pytest.raises(TaskException) as refused:
        parse({"command": [], "env": 1, "maxRunTime": -1, "artifacts": 2, "more": 3})
    assert len(str(refused.value).splitlines()) == 5
    for many in ({"command": [[0] * 100_000]}, {**LS, "mounts": [{"file": "/a", "content": RAW}] * 100_000}):
        with pytest.raises(TaskException) as refused:
            parse(many)
        assert len(str(refused.value).splitlines()) == MOST_PROBLEMS + 1


def test_the_workers_time_limit() -> None:
    parse({**LS, "maxRunTime": 60}, 60)
    with pytest.raises(TaskException, match="this worker's limit of 60 s"):
        parse({**LS, "maxRunTime": 61}, 60)


CACHE = _mount(directory="a", cacheName="project-pip")
ARTIFACT = _mount(file="a", content={"taskId": TASK, "artifact": "public/a"})


@pytest.mark.parametrize("scope", ["generic-worker:cache:project-pip", "generic-worker:cache:project-*", "*"])
def test_a_cache_needs_its_scope(scope: str) -> None:
    parse(CACHE, scopes=["queue:x", scope])


@pytest.mark.parametrize(
    ("payload", "task", "missing"),
    [
        (CACHE, {"scopes": []}, "the task needs the scope generic-worker:cache:project-pip"),
        (CACHE, {"scopes": ["generic-worker:cache:project-pi", "generic-worker:cache:a*"]}, "needs the scope"),
        ({**CACHE, "mounts": CACHE["mounts"] * 2}, {}, "mounts[1]: the cache project-pip is mounted already"),
        (ARTIFACT, {"dependencies": []}, f"task.dependencies must include {TASK}"),
    ],
)
def test_what_a_mount_lacks_is_named(payload: Any, task: dict[str, Any], missing: str) -> None:
    with pytest.raises(TaskException) as refused:
        parse(payload, **task)
    assert missing in str(refused.value)


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
    except TaskException as refused:
        assert str(refused)
    else:
        assert all(payload["command"])
