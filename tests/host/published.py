"""What the service publishes of itself, compared with what it returns."""

from __future__ import annotations

import json
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import requests

from shared.api.endpoint import Endpoint
from shared.api.router import Router
from shared.endpoints import ENDPOINTS, PREFIX

_ROUTER = Router(PREFIX, ENDPOINTS)
_NO_ENVELOPE = {404: {"error"}, 424: {"reason", "message"}}
"""Errors that may come without the envelope, and what they hold then (contract 12)."""


class Published:
    """The references and schemas of a running service, fetched when they are first needed."""

    def __init__(self, root_url: str) -> None:
        self._root_url = root_url
        self._validator = cache(self._make_validator)

    @cached_property
    def entries(self) -> dict[str, Any]:
        """The entries of the queue's reference by name."""
        reference = self.document("/references/queue/v1/api.json")
        return {entry["name"]: entry for entry in reference["entries"]}

    def document(self, path: str) -> Any:
        """A published document."""
        answer = requests.get(self._root_url + path, timeout=30)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return answer.json()

    def endpoint(self, method: str, url: str) -> Endpoint | None:
        """The endpoint of the queue that a request is for."""
        match = _ROUTER.find(method.upper(), urlsplit(url).path)
        return match.endpoint if match else None

    def problem(self, endpoint: Endpoint, status: int, content: bytes) -> str | None:
        """What is wrong with an answer, as far as the published schemas tell."""
        if status == 204:
            return "a body where there is none" if content else None
        body = json.loads(content)
        if status >= 400:
            bare = _NO_ENVELOPE.get(status)
            enveloped = {"code", "message", "requestInfo"}
            return None if set(body) in (enveloped, bare) else f"an error with {sorted(body)}"
        if status != endpoint.success:
            return f"status {status} instead of {endpoint.success}"
        schema = self.entries[endpoint.name].get("output")
        if schema is None:
            return None
        errors = [f"{error.instance_path}: {error.message}" for error in self._validator(schema).iter_errors(body)]
        return f"not as {schema} has it: {errors}" if errors else None

    def _make_validator(self, name: str) -> jsonschema_rs.Validator:
        schema = self.document(f"/schemas/queue/{name.removesuffix('#')}")
        return jsonschema_rs.validator_for(schema, validate_formats=True)
