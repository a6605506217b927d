"""What payloads ask of the reference worker, against the service: mounts, caches, artifacts, retries, the proxy."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import taskcluster

from tests.promises.host.service import Service, eventually, refused
from tests.promises.host.worker_support import SECONDS, artifact, content, log_with, names, shell

CACHE = ["generic-worker:cache:*"]


def resolved(service: Service, task_id: str, state: str) -> str:
    """Returns the log of a task that a worker has brought to this state."""
    eventually(lambda: service.status(task_id)["state"] in ("completed", "failed", "exception"), SECONDS)
    log = log_with(service, task_id, "]")
    assert service.status(task_id)["state"] == state, log
    return log


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns an archive that holds `bin/tool`."""
    path = tmp_path_factory.mktemp("packed") / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bin/tool", "tool")
    return path


@pytest.fixture(scope="module")
def built(served: Service, packed: Path) -> str:
    """Returns a completed task with two artifacts: `public/a.zip` and `private/text`."""
    script = f"cp {packed} . && printf text > text"
    task_id = served.create(payload=shell(script, artifacts={"public/a.zip": "a.zip", "private/text": "text"}))
    resolved(served, task_id, "completed")
    return task_id


def test_mounts_of_every_kind(served: Service, built: str, packed: Path) -> None:
    other = built
    url = served.queue.getArtifact(other, 0, "public/a.zip")["url"]
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    mounts = [
        {"directory": "a/unpacked", "content": {"taskId": other, "artifact": "public/a.zip"}, "format": "zip"},
        {"directory": "b", "content": {"url": url, "sha256": digest}, "format": "zip"},
        {"file": "c/text", "content": {"taskId": other, "artifact": "private/text"}},
        {"file": "raw", "content": {"raw": "räw"}},
        {"file": "base64", "content": {"base64": "AP8="}},
    ]
    script = "cat a/unpacked/bin/tool b/bin/tool c/text raw; od -An -tx1 base64"
    scopes = ["queue:get-artifact:private/text", "queue:get-artifact:public/*"]
    task_id = served.create(payload=shell(script, mounts=mounts), dependencies=[other], scopes=scopes)
    assert "\ntooltooltexträw 00 ff\n" in resolved(served, task_id, "completed")


def test_content_that_the_index_holds(served: Service, built: str) -> None:
    other = built
    index = taskcluster.Index(served.queue.options)
    namespace = f"project.{other.lower().replace('_', '-')}"
    later = "2100-01-01T00:00:00.000Z"
    index.insertTask(namespace, {"taskId": other, "rank": 0, "data": {}, "expires": later})
    mounts = [{"file": "text", "content": {"namespace": namespace, "artifact": "private/text"}}]
    scopes = ["queue:get-artifact:private/text", f"index:find-task:{namespace}"]
    task_id = served.create(payload=shell("cat text", mounts=mounts), scopes=scopes)
    assert "\ntext" in resolved(served, task_id, "completed")


def bad_mounts(served: Service, other: str) -> dict[str, tuple[dict[str, Any], str]]:
    """Returns mounts that cannot be made, and what the log says of each."""
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("../../evil", "evil")
    url = served.queue.getArtifact(other, 0, "public/a.zip")["url"]
    inline = {"base64": base64.b64encode(evil.getvalue()).decode()}
    return {
        "hash": ({"file": "a", "content": {"url": url, "sha256": "0" * 64}}, "its sha256 is "),
        "hash of an artifact": (
            {"directory": "a", "content": {"taskId": other, "artifact": "public/a.zip", "sha256": "f" * 64}}
            | {"format": "zip"},
            "its sha256 is ",
        ),
        "slip": ({"directory": "a", "content": inline, "format": "zip"}, "leads out of the directory"),
        "format": ({"directory": "a", "content": {"url": url}, "format": "tar.gz"}, "cannot be unpacked as tar.gz"),
        "gone": ({"file": "a", "content": {"taskId": other, "artifact": "public/gone"}}, "ResourceNotFound"),
        "scope": ({"file": "a", "content": {"taskId": other, "artifact": "private/text"}}, "InsufficientScopes"),
        "url": ({"file": "a", "content": {"url": f"{url}x"}}, "the server answers 40"),
    }


def test_mounts_that_cannot_be_made_fail_the_task(served: Service, built: str) -> None:
    other = built
    bad = bad_mounts(served, other)
    ids = {
        name: served.create(
            payload=shell("echo not to be run", mounts=[mount]),
            dependencies=[other],
            scopes=["queue:get-artifact:public/*"],
        )
        for name, (mount, _) in bad.items()
    }
    for name, (_, said) in bad.items():
        log = resolved(served, ids[name], "failed")
        assert said in log, name
        assert "\nnot to be run" not in log


def test_a_cache_serves_later_tasks_until_it_is_purged(served: Service) -> None:
    mounts = [{"directory": "some/cache", "cacheName": "counter"}]
    script = "cat some/cache/count; echo x >> some/cache/count; exit $CODE"

    def count(code: int) -> str:
        more = {"mounts": mounts, "env": {"CODE": str(code)}, "onExitStatus": {"purgeCaches": [4]}}
        task_id = served.create(payload=shell(script, **more), scopes=CACHE)
        return resolved(served, task_id, "failed" if code else "completed")

    assert "Cache counter at some/cache: new" in count(0)
    log = count(4)
    assert "as it was left" in log
    assert "\nx\n" in log
    assert "Cache counter at some/cache: new" in count(3)
    assert "\nx\n" in count(0), "a task that failed leaves its cache"


def test_an_exit_code_asks_for_a_retry(served: Service) -> None:
    payload = shell("[ $RUN_ID = 1 ] || exit 75", onExitStatus={"retry": [75]})
    task_id = served.create(payload=payload)
    resolved(served, task_id, "completed")
    assert [run["reasonResolved"] for run in served.status(task_id)["runs"]] == ["intermittent-task", "completed"]


def test_artifacts_of_every_kind(served: Service, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    script = f"""
        mkdir -p out/deep; echo a > out/a.txt; echo b > out/deep/b; ln -s {outside} out/leak; ln -s a.txt out/same
        ln -s {tmp_path} elsewhere; printf packed > packed"""
    artifacts = [
        {"type": "directory", "path": "out", "name": "public/out"},
        {"type": "file", "path": "packed", "contentType": "text/x", "contentEncoding": "gzip"},
        {"type": "file", "path": "gone", "optional": True},
        {"type": "directory", "path": "elsewhere", "name": "public/elsewhere"},
        {"type": "file", "path": "missing"},
        {"type": "file", "path": "out", "name": "folder"},
    ]
    task_id = served.create(payload=shell(script, artifacts=artifacts))
    log = resolved(served, task_id, "failed")
    assert "out/leak leads out of the task's folder" in log
    assert artifact(served, task_id, "public/out/a.txt") == artifact(served, task_id, "public/out/same") == "a\n"
    assert artifact(served, task_id, "public/out/deep/b") == "b\n"
    packed = content(served, task_id, "packed")
    assert (packed.text, packed.headers["Content-Encoding"]) == ("packed", "gzip")
    for name in ("public/out/leak", "public/elsewhere", "folder", "missing"):
        with refused(424, None) as errors:
            served.queue.getArtifact(task_id, 0, name)
        reason = "file-missing-on-worker" if name == "missing" else "invalid-resource-on-worker"
        assert errors[0].body["reason"] == reason, name
    assert "gone" not in names(served, task_id)


CALLER = """
import json, os, urllib.request
root = os.environ["TASKCLUSTER_PROXY_URL"]
def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(root + path, data, {"Content-Type": "application/json"}, method=method)
    return json.load(urllib.request.urlopen(request))
task = os.environ["TASK_ID"]
reference = {"storageType": "reference", "url": "https://example.com", "contentType": "text/x"}
made = call("POST", f"/api/queue/v1/task/{task}/runs/0/artifacts/public%2Fmade",
            {**reference, "expires": os.environ["UNTIL"]})
print("made", made["storageType"])
print("scopes", json.dumps(call("GET", "/api/auth/v1/scopes/current")["scopes"]))
"""


def test_a_task_calls_with_its_own_credentials(served: Service, tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    definition = served.a_task()
    payload = {
        "command": [sys.executable, str(tmp_path / "caller.py")],
        "features": {"taskclusterProxy": True},
        "env": {"UNTIL": definition["deadline"]},
    }
    task_id = served.create(payload=payload, scopes=["test:mine", "auth:current-scopes"])
    log = resolved(served, task_id, "completed")
    assert "\nmade reference\n" in log
    (line,) = (line for line in log.splitlines() if line.startswith("scopes "))
    scopes = set(json.loads(line.removeprefix("scopes ")))
    allowed = {"test:mine", "auth:current-scopes", f"queue:create-artifact:{task_id}/0"}
    assert scopes - {"assume:anonymous"} == allowed, "and no reports"
