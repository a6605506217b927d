"""A job of a pipeline signs in with its ID token, and the documented workflow starts a graph so."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import taskcluster
import yaml  # type: ignore[import-untyped]  # comes without types
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from taskcluster.exceptions import TaskclusterAuthFailure

from tests.promises.host.conftest import start
from tests.promises.host.service import Running, refused
from tools.local.state import ROOT

WORKFLOW = ROOT / "docs" / "examples" / "decision-task.yml"
PAGE = ROOT / "docs" / "ecosystem.md"
REQUEST_TOKEN = "what the runner gives to its job"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class GitHub:
    """GitHub's issuer, with claims as its jobs get them. `job` is what the next token says of its job."""

    def __init__(self) -> None:
        self.url = ""
        self.job: dict[str, str] = {}

    def answer(self, target: str, authorization: str | None) -> Any:
        """Returns what is at an address, or None."""
        url = urlsplit(target)
        if url.path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/.well-known/jwks"}
        if url.path == "/.well-known/jwks":
            key = RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
            return {"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]}
        query = parse_qs(url.query)
        if url.path != "/token" or query.get("api-version") != ["2.0"] or authorization != f"Bearer {REQUEST_TOKEN}":
            return None
        return {"value": self.token(query["audience"][0])}

    def token(self, audience: str, subject: str | None = None) -> str:
        """Returns an ID token of the job."""
        now = int(time.time())
        repository, ref = self.job["GITHUB_REPOSITORY"], self.job["GITHUB_REF"]
        claims = {
            "iss": self.url,
            "aud": audience,
            "sub": subject or f"repo:{repository}:ref:{ref}",
            "iat": now,
            "nbf": now - 5,
            "exp": now + 300,
            "jti": "made up",
            "repository": repository,
            "repository_owner": repository.partition("/")[0],
            "ref": ref,
            "ref_type": "branch",
            "sha": self.job["GITHUB_SHA"],
            "event_name": "push",
            "workflow_ref": f"{repository}/.github/workflows/decision-task.yml@{ref}",
            "runner_environment": "github-hosted",
        }
        return jwt.encode(claims, KEY, "RS256", {"kid": "one"})


@contextmanager
def serving(github: GitHub) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = github.answer(self.path, self.headers["Authorization"])
            content = json.dumps(answer).encode()
            self.send_response_only(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def github() -> Iterator[GitHub]:
    issuer = GitHub()
    with serving(issuer):
        yield issuer


@pytest.fixture(scope="module")
def deployed(github: GitHub) -> Iterator[Running]:
    """Yields a deployment that is set up as the page says."""
    for running in start({"OPENID_WORKLOAD_ISSUER": github.url}, hosts=1):
        commands = re.findall(
            r"^ +taskcluster api auth createRole (\S+) <<'EOF'\n(.*?)EOF", PAGE.read_text(), re.DOTALL | re.MULTILINE
        )
        assert len(commands) == 2
        with running.deployment.auth(running.deployment.root) as auth:
            auth.createRole("anonymous", {"description": "", "scopes": ["auth:current-scopes"]})
            for name, role in commands:
                auth.createRole(name, json.loads(role))
        yield running


def push(branch: str, repository: str = "my-org/my-repo") -> dict[str, str]:
    """Returns what GitHub puts into the environment of a job."""
    return {
        "GITHUB_REPOSITORY": repository,
        "GITHUB_REF": f"refs/heads/{branch}",
        "GITHUB_REF_NAME": branch,
        "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
        "GITHUB_ACTOR": "somebody",
    }


def run_workflow(deployed: Running, github: GitHub, job: dict[str, str], folder: Path) -> tuple[int, str, str]:
    """Runs every step as the runner does; `pip` only says what it would install. Returns the code, output and
    errors."""
    github.job = job
    tools = folder / "bin"
    tools.mkdir()
    (tools / "pip").write_text('#!/bin/sh\necho "pip $*"\n')
    (tools / "pip").chmod(0o755)
    variables = {"TASKCLUSTER_ROOT_URL": deployed.deployment.root_url}
    environment = {
        "PATH": f"{tools}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/token?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        **job,
    }
    said, errors, code = "", "", 0
    for step in yaml.safe_load(WORKFLOW.read_text())["jobs"]["decide"]["steps"]:
        values = {
            name: re.sub(r"\$\{\{ vars\.(\w+) \}\}", lambda found: variables[found[1]], value)
            for name, value in step.get("env", {}).items()
        }
        script = folder / "script"
        script.write_text(step["run"])
        command = {"bash": ["bash", "-e"], "python": ["python"]}[step.get("shell", "bash")]
        done = subprocess.run(
            [*command, str(script)], env=environment | values, capture_output=True, text=True, check=False
        )
        said, errors, code = said + done.stdout, errors + done.stderr, done.returncode
        if code:
            break
    return code, said, errors


def test_a_push_starts_a_graph(deployed: Running, github: GitHub, tmp_path: Path) -> None:
    code, said, errors = run_workflow(deployed, github, push("main"), tmp_path)
    assert code == 0, errors
    installed, link = said.splitlines()
    assert installed == "pip install --quiet taskcluster"
    root_url, _, task_id = link.partition("/tasks/")
    assert root_url == deployed.deployment.root_url
    queue = taskcluster.Queue({"rootUrl": root_url, "credentials": dict(deployed.deployment.root), "maxRetries": 0})
    task = queue.task(task_id)
    assert task["scopes"] == ["assume:repo:github.com/my-org/my-repo:branch:main"]
    assert task["routes"] == [f"index.my-team.v2.my-repo.revision.{push('main')['GITHUB_SHA']}.decision"]
    assert queue.status(task_id)["status"]["state"] == "pending"
    (claim,) = queue.claimWork("my-team/decision", {"workerGroup": "g", "workerId": "w"})["tasks"]
    auth = taskcluster.Auth({"rootUrl": root_url, "credentials": claim["credentials"], "maxRetries": 0})
    assert "queue:create-task:low:my-team/*" in auth.currentScopes()["scopes"], "the graph's tasks can be created"


@pytest.mark.parametrize("job", [push("other"), push("main", "somebody/my-repo")], ids=["branch", "repository"])
@pytest.mark.large
def test_jobs_of_others_may_create_nothing(
    deployed: Running, github: GitHub, job: dict[str, str], tmp_path: Path
) -> None:
    code, said, errors = run_workflow(deployed, github, job, tmp_path)
    assert code == 1
    assert "/tasks/" not in said
    assert "InsufficientScopes" in errors


def test_client_id_and_roles_of_a_job(deployed: Running, github: GitHub) -> None:
    github.job = push("main")
    root_url = deployed.deployment.root_url
    anonymous = taskcluster.Auth({"rootUrl": root_url, "maxRetries": 0})
    pull_request = github.token(root_url, "repo:my-org/my-repo:pull_request")
    credentials = anonymous._makeHttpRequest("POST", "sign-in", {"idToken": pull_request})
    assert credentials["clientId"] == "workload/github/repo:my-org!2fmy-repo:pull_request"
    everybody = set(anonymous.currentScopes()["scopes"])
    auth = taskcluster.Auth({"rootUrl": root_url, "credentials": credentials, "maxRetries": 0})
    assert set(auth.currentScopes()["scopes"]) - everybody == {"assume:github:repo:my-org/my-repo:pull_request"}
    for other in (github.token("https://another.example.com"), github.token(root_url)[:-6] + "AAAAAA"):
        with pytest.raises(TaskclusterAuthFailure, match="not valid"):
            anonymous._makeHttpRequest("POST", "sign-in", {"idToken": other})
    with refused(404, "ResourceNotFound"):
        anonymous._makeHttpRequest("POST", "sign-in", {"idToken": pull_request, "nonce": "that of a person"})
