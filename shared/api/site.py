"""What a service answers at the root of its host, to any method, for those who watch machines (contract 1.2)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.api.answer import Answer, json_answer

_ROBOTS = b"User-agent: *\nDisallow: /\n"


def version_of(app_version: str) -> Mapping[str, str]:
    """What is deployed, in the form of Mozilla's Dockerflow; what the deployment does not tell is empty."""
    return {"version": app_version, "commit": "", "source": "", "build": ""}


SAME_AS: Mapping[str, str] = {
    "/__heartbeat__": "/api/queue/v1/__heartbeat__",
    "/__lbheartbeat__": "/api/queue/v1/__lbheartbeat__",
}
"""Paths of the root that answer, to any method, as others do to GET."""


def at_root(path: str, app_version: str) -> Answer | None:
    """The answer at a path of the root, None for any other path."""
    match path:
        case "/__version__":
            return json_answer(version_of(app_version))
        case "/robots.txt":
            return Answer(body=_ROBOTS, content_type="text/plain; charset=utf-8")
        case _:
            return None
