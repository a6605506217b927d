"""The deployment that the commands talk to: root URL and credentials from the environment, as every client has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
import taskcluster
from taskcluster.exceptions import TaskclusterAuthFailure, TaskclusterConnectionError, TaskclusterRestFailure

from tools.admin.output import fail

VARIABLES = {
    "clientId": "TASKCLUSTER_CLIENT_ID",
    "accessToken": "TASKCLUSTER_ACCESS_TOKEN",
    "certificate": "TASKCLUSTER_CERTIFICATE",
}
"""Where each field of the credentials comes from."""

LOCALLY = 'For the local stack: ./dev up --detach, then eval "$(./dev env)".'
_FOR_MACHINES = "\n\n---\n"
_REASON = re.compile(r"\[(?:Errno -?\d+|SSL: \w+)\] ([^\])(]+)")
"""The words of the system's error, within those of the libraries that it went through."""


def root_url(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the deployment's root URL. Ends the command with a message when it is not set."""
    value = environment.get("TASKCLUSTER_ROOT_URL")
    if not value:
        fail(
            "TASKCLUSTER_ROOT_URL is not set: it is the URL of the deployment, such as https://queue.example.com. "
            + LOCALLY
        )
    if not re.match(r"https?://[^/]", value):
        fail(f"TASKCLUSTER_ROOT_URL must be a URL that begins with https:// (or http://), not {value!r}")
    return value


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the caller's credentials. Ends the command with a message when they are not set."""
    found = {field: environment[name] for field, name in VARIABLES.items() if environment.get(name)}
    if not {"clientId", "accessToken"} <= found.keys():
        fail(
            "TASKCLUSTER_CLIENT_ID and TASKCLUSTER_ACCESS_TOKEN are not set: whose credentials are to be used? "
            + LOCALLY
        )
    return found


@contextmanager
def auth_api() -> Iterator[Any]:
    """Yields the deployment's auth API. An error of the API ends the command with its message."""
    with _api("Auth") as auth:
        yield auth


@contextmanager
def queue_api() -> Iterator[Any]:
    """Yields the deployment's queue API, in the same way as `auth_api`."""
    with _api("Queue") as queue:
        yield queue


@contextmanager
def index_api() -> Iterator[Any]:
    """Yields the deployment's index API, in the same way as `auth_api`."""
    with _api("Index") as index:
        yield index


@contextmanager
def _api(name: str) -> Iterator[Any]:
    url = root_url()
    options = {"rootUrl": url, "credentials": credentials()}
    with answering(url) as session:
        yield _strict(getattr(taskcluster, name))(options, session)


@contextmanager
def answering(url: str) -> Iterator[Any]:
    """Yields a session for a client of the deployment at this root URL, whose errors end the command with their
    message."""
    session = taskcluster.createSession()
    try:
        yield session
    except _NoDeployment as failure:
        fail(_is_no_deployment(url, failure.status))
    except (TaskclusterRestFailure, TaskclusterAuthFailure) as failure:
        fail(_explained(url, failure))
    except TaskclusterConnectionError as failure:
        fail(f"{url} cannot be reached: {reason(failure.superExc)}")
    finally:
        session.close()


def reason(error: BaseException) -> str:
    """Returns why there is no connection, in a few words."""
    text = str(error)
    found = _REASON.search(text)
    return found[1].strip() if found else text.partition("\n")[0]


def _explained(root_url: str, failure: Any) -> str:
    """Returns the API's message, without the block for machines at its end (contract 12).

    An answer without the envelope of errors is not of a deployment: the root URL is another server's, or leads to a
    path of it.
    """
    body = failure.body if isinstance(failure.body, dict) else {}
    if not isinstance(body.get("code"), str) or not isinstance(body.get("message"), str):
        return _is_no_deployment(root_url, failure.status_code)
    return f"{body['code']}: {body['message'].partition(_FOR_MACHINES)[0]}"


def _is_no_deployment(root_url: str, status: int) -> str:
    return (
        f"{root_url} returns status {status}, but does not respond as a Taskcluster deployment does: "
        "is TASKCLUSTER_ROOT_URL right?"
    )


class _NoDeployment(Exception):
    """A call succeeded, and its answer was no JSON."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _strict(client: Any) -> Any:
    """Returns a class of clients that accept only answers in JSON; the public client returns any."""

    class Strict(client):  # type: ignore[misc]  # the public client has no types
        def _makeHttpRequest(self, *args: Any) -> Any:  # noqa: N802 - the client's name
            answer = super()._makeHttpRequest(*args)
            response = answer.get("response") if isinstance(answer, dict) else None
            if isinstance(response, requests.Response) and response.content:
                raise _NoDeployment(response.status_code)
            return answer

    return Strict
