"""Sends bare requests, with a given target on their request line."""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.promises.host.service import Service

API = "/api/queue/v1"
JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """An answer as it comes over the wire; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str | None:
        """The code of the error envelope."""
        code: str | None = self.body.get("code")
        return code


def send(
    service: Service,
    method: str,
    target: str,
    body: bytes = b"",
    content_type: str = JSON,
    *,
    signed: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Sends a request signed as root, without a hash of the body; unsigned if so asked."""
    site = urlsplit(service.running.deployment.root_url)
    sent = {**({"content-type": content_type} if body else {}), **(headers or {})}
    if signed:
        sent["authorization"] = signature(service, method, target)
    connection = http.client.HTTPConnection(str(site.hostname), site.port, timeout=30)
    try:
        connection.request(method, target, body, sent)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def signature(service: Service, method: str, target: str) -> str:
    """Returns an Authorization header of root, made by hand (contract 11.1)."""
    deployment = service.running.deployment
    site = urlsplit(deployment.root_url)
    ts, nonce = str(int(time.time())), secrets.token_urlsafe(6)
    signed = "\n".join(["hawk.1.header", ts, nonce, method, target, str(site.hostname), str(site.port), "", "", ""])
    mac = base64.b64encode(hmac.digest(deployment.root["accessToken"].encode(), signed.encode(), "sha256")).decode()
    return f'Hawk id="{deployment.root["clientId"]}", ts="{ts}", nonce="{nonce}", mac="{mac}"'
