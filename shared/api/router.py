"""Finds the endpoint of a request, by the raw path, in which `%2F` is no separator (contract 1.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from urllib.parse import unquote

from shared.api.endpoint import Endpoint
from shared.base.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class Match:
    """An endpoint and its URL parameters, decoded."""

    endpoint: Endpoint
    params: Mapping[str, str]


class Router:
    """The routes below one prefix; where two match, the first in the table wins."""

    def __init__(self, prefix: str, endpoints: Sequence[Endpoint]) -> None:
        self.prefix = prefix
        # Each pattern is compiled at its first use: compiling all of them would take a twentieth of the start-up time.
        self._routes = [(cache(partial(_compile, prefix, endpoint)), endpoint) for endpoint in endpoints]

    def find(self, method: str, raw_path: str) -> Match | None:
        """Returns the endpoint for a method and a raw path; HEAD is served as GET."""
        wanted = "GET" if method == "HEAD" else method
        for pattern, endpoint in self._routes:
            if endpoint.method == wanted and (found := pattern().fullmatch(raw_path)):
                params = {name: unquote(value, errors="replace") for name, value in found.groupdict().items()}
                return Match(endpoint=endpoint, params=params)
        return None

    def methods(self, raw_path: str) -> list[str]:
        """Returns the methods that a path has, HEAD after GET; empty for an unknown path."""
        found = dict.fromkeys(endpoint.method for pattern, endpoint in self._routes if pattern().fullmatch(raw_path))
        return [name for method in found for name in ((method, "HEAD") if method == "GET" else (method,))]


def _compile(prefix: str, endpoint: Endpoint) -> re.Pattern[str]:
    def parameter(match: re.Match[str]) -> str:
        name = match[1]
        if name == "name":
            return r"(?P<name>.*)"
        if name == "taskQueueId" and endpoint.raw_slash:
            return r"(?P<taskQueueId>[^/]+(?:/[^/]+)?)"
        if name in ("clientId", "roleId", "entityId"):
            return rf"(?P<{name}>.+?)"  # ids hold slashes, which the platform may have decoded
        return rf"(?P<{name}>[^/]+)"

    # Some clients leave out the slash at the end of a route.
    route = re.sub(r"<([^>]+)>", parameter, endpoint.route.rstrip("/"))
    tolerated = "" if endpoint.route.endswith("<name>") else "/?"
    return re.compile(re.escape(prefix) + route + tolerated, re.DOTALL)
