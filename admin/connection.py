"""The deployment that the commands talk to: root URL and credentials from the environment, as every client has them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import taskcluster
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterConnectionError, TaskclusterRestFailure

from admin.output import fail

VARIABLES = {
    "clientId": "TASKCLUSTER_CLIENT_ID",
    "accessToken": "TASKCLUSTER_ACCESS_TOKEN",
    "certificate": "TASKCLUSTER_CERTIFICATE",
}
"""Where each field of the credentials comes from."""


def root_url(environment: Mapping[str, str] = os.environ) -> str:
    """The deployment's root URL. Ends the command with a message when it is not set."""
    value = environment.get("TASKCLUSTER_ROOT_URL")
    if not value:
        fail("TASKCLUSTER_ROOT_URL is not set: it is the URL of the deployment, such as https://queue.example.com")
    return value


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The caller's credentials. Ends the command with a message when they are not set."""
    found = {field: environment[name] for field, name in VARIABLES.items() if environment.get(name)}
    if not {"clientId", "accessToken"} <= found.keys():
        fail("TASKCLUSTER_CLIENT_ID and TASKCLUSTER_ACCESS_TOKEN are not set: whose credentials are to be used?")
    return found


@contextmanager
def auth_api() -> Iterator[Any]:
    """The deployment's auth API. An error of the API ends the command with its message."""
    with _api("Auth") as auth:
        yield auth


@contextmanager
def queue_api() -> Iterator[Any]:
    """The deployment's queue API, in the same way."""
    with _api("Queue") as queue:
        yield queue


@contextmanager
def _api(name: str) -> Iterator[Any]:
    options = {"rootUrl": root_url(), "credentials": credentials()}
    session = taskcluster.createSession()
    try:
        yield getattr(taskcluster, name)(options, session)
    except (TaskclusterRestFailure, TaskclusterAuthFailure) as failure:
        fail(_explained(failure))
    except TaskclusterConnectionError as failure:
        fail(f"{options['rootUrl']} cannot be reached: {failure.superExc}")
    finally:
        session.close()


def _explained(failure: Any) -> str:
    """The API's message, without the block for machines at its end (contract 12)."""
    body = failure.body if isinstance(failure.body, dict) else {}
    message = str(body.get("message") or failure).partition("\n\n---\n")[0]
    return f"{body.get('code', failure.status_code)}: {message}"
