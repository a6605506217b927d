"""Compares what the service publishes of itself with what it returns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from shared.api.endpoint import Endpoint
from shared.api.router import Router
from shared.app.apis import INDEX, QUEUE

_ROUTERS = {"queue": Router(QUEUE.prefix, QUEUE.endpoints), "index": Router(INDEX.prefix, INDEX.endpoints)}
_NO_ENVELOPE = {404: {"error"}, 424: {"reason", "message"}}
"""Statuses of errors that may come without the envelope, and the properties that they have then (contract 12)."""


@dataclass(frozen=True)
class Called:
    """The endpoint that a request is for."""

    service: str
    endpoint: Endpoint

    @property
    def name(self) -> str:
        """The endpoint's name, as in tests/promises/compatibility/rows.py."""
        return self.endpoint.name if self.service == "queue" else f"{self.service}.{self.endpoint.name}"


class Published:
    """The references and schemas of a running service, fetched when they are first needed."""

    def __init__(self, root_url: str) -> None:
        self._root_url = root_url
        self._validator = cache(self._make_validator)
        self._entries = cache(self._read_entries)

    def document(self, path: str) -> Any:
        """Returns a published document. A host that is being started again is tried for some 25 seconds."""
        with requests.Session() as session:
            session.mount(self._root_url, HTTPAdapter(max_retries=Retry(connect=8, read=0, backoff_factor=0.1)))
            answer = session.get(self._root_url + path, timeout=30)
            assert answer.status_code == 200, f"{path}: {answer.status_code}"
            return answer.json()

    def called(self, method: str, url: str) -> Called | None:
        """Returns the endpoint of the queue or the index that a request is for."""
        for service, router in _ROUTERS.items():
            if match := router.find(method.upper(), urlsplit(url).path):
                return Called(service, match.endpoint)
        return None

    def problem(self, called: Called, status: int, content: bytes) -> str | None:
        """Returns what is wrong with an answer, as far as the published schemas tell."""
        endpoint = called.endpoint
        if status == 204:
            return "a body where there is none" if content else None
        if status == endpoint.success == 303 and endpoint.output is None:
            return None
        body = json.loads(content)
        if status >= 400:
            bare = _NO_ENVELOPE.get(status)
            enveloped = {"code", "message", "requestInfo"}
            return None if set(body) in (enveloped, bare) else f"an error with {sorted(body)}"
        if status != endpoint.success:
            return f"status {status} instead of {endpoint.success}"
        schema = self._schema(called)
        if schema is None:
            return None
        validator = self._validator(called.service, schema)
        errors = [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(body)]
        return f"not as {schema} has it: {errors}" if errors else None

    def _schema(self, called: Called) -> str | None:
        """Returns the answer's schema by the reference; that of a form that is not listed is its listed form's."""
        entries = self._entries(called.service)
        name = called.endpoint.name
        found = entries.get(name) or entries[name.removesuffix("Post")]
        output: str | None = found.get("output")
        return output

    def _read_entries(self, service: str) -> dict[str, Any]:
        """Returns the entries of a service's reference by name."""
        return {entry["name"]: entry for entry in self.document(f"/references/{service}/v1/api.json")["entries"]}

    def _make_validator(self, service: str, name: str) -> jsonschema_rs.Validator:
        schema = self.document(f"/schemas/{service}/{name.removesuffix('#')}")
        return jsonschema_rs.validator_for(schema, validate_formats=True)
