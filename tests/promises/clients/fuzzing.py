"""Random requests, made from what an OpenAPI document says may be sent, and what may not."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import mohawk
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, BaseSchema, Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from shared.api.validation import MAX_BODY
from shared.base.types import SLUGID_PATTERN
from tests.promises.clients.deployment import Credentials

_AS_DOCUMENTED = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
_SLUGID = re.compile(f"(?<![A-Za-z0-9_-]){SLUGID_PATTERN.strip('^$')}(?![A-Za-z0-9_-])")
_TIMEOUT = 60
_WILD = 0.25
"""Share of the requests as documented whose subject need not exist."""

Body = dict[str, Any]


class Hawk(requests.auth.AuthBase):
    """Signs as the public clients do, including a hash of the body."""

    def __init__(self, credentials: Credentials) -> None:
        self._key = {"id": credentials["clientId"], "key": credentials["accessToken"], "algorithm": "sha256"}

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        content = request.body or b""
        content_type = request.headers.get("content-type", "") if content else ""
        sender = mohawk.Sender(self._key, request.url, request.method, content=content, content_type=content_type)
        request.headers["authorization"] = sender.request_header
        return request


@dataclass(frozen=True)
class Known:
    """Things that exist, which some requests are about."""

    parameters: Mapping[str, Sequence[str]]
    """Values of URL parameters that exist."""
    bodies: Mapping[str, Sequence[Body]]
    """By operation, properties with which a body can succeed; None takes a property out."""


@dataclass(frozen=True)
class Sent:
    """A request that was sent, and how it was answered."""

    case: Case[Any]
    request: requests.PreparedRequest
    status: int

    @property
    def is_refused(self) -> bool:
        return 400 <= self.status < 500

    @property
    def operation(self) -> str:
        return name_of(self.case.operation)

    @property
    def ids(self) -> set[str]:
        """Returns the slugids that the request names."""
        return set(_SLUGID.findall(f"{self.request.url} {self.request.body!r}"))

    def __str__(self) -> str:
        return f"{self.operation}: {self.request.method} {self.request.url} {self.request.body!r} -> {self.status}"


@dataclass
class Fuzzer:
    """Sends requests, and collects what is wrong with the answers."""

    schema: BaseSchema
    known: Known
    seed: int
    problems: list[str] = field(default_factory=list)
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each operation was answered with each status."""

    def __post_init__(self) -> None:
        load_all_checks()
        self._chance = random.Random(self.seed)
        self._session = requests.Session()
        self._base_url = str(self.schema.raw_schema["servers"][0]["url"])

    def close(self) -> None:
        """Ends the connections."""
        self._session.close()

    @property
    def operations(self) -> list[APIOperation[Any, Any, Any, Any]]:
        """Returns all operations of the document."""
        return [result.ok() for result in self.schema.get_all_operations() if isinstance(result, Ok)]

    def run(self, examples: int, credentials: Credentials) -> list[Sent]:
        """Sends for every operation `examples` requests as documented, and as many that are not."""
        return [
            self._send(case, auth=Hawk(credentials))
            for operation in self.operations
            for mode in GenerationMode
            for case in self._cases(operation, mode, examples)
        ]

    def repeat(self, sent: Sent, credentials: Credentials | None) -> Sent:
        """Sends the same request again, perhaps as somebody else."""
        request = sent.request.copy()
        request.headers.pop("authorization", None)
        if credentials is not None:
            request = Hawk(credentials)(request)
        answer = self._session.send(request, allow_redirects=False, timeout=_TIMEOUT)
        return self._checked(sent.case, answer)

    def _cases(
        self, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, examples: int
    ) -> Iterator[Case[Any]]:
        # Nothing generates a value of a path that holds a slash.
        fixed = {} if mode.is_negative else self._choose({"taskQueueId"} & _parameters(operation))
        made: list[Case[Any]] = []

        @seed(self._chance.randrange(2**32))
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode, path_parameters=fixed or None))
        def generate(case: Case[Any]) -> None:
            made.append(case)

        try:
            generate()
        except Unsatisfiable:
            # Where nothing can be sent, nothing wrong can be sent.
            assert mode.is_negative, name_of(operation)
            assert not operation.path_parameters, name_of(operation)
        for case in made:
            if len(json.dumps(case.body, default=str)) > MAX_BODY:  # the host refuses it, before a function is called
                continue
            # claimTask waits a while for an unknown task to appear.
            is_wild = mode.is_negative or (name_of(operation) != "claimTask" and self._chance.random() < _WILD)
            yield case if is_wild else self._plausible(case)

    def _plausible(self, case: Case[Any]) -> Case[Any]:
        """Changes the case so that it is about something that exists, and can succeed."""
        case.path_parameters.update(self._choose(_parameters(case.operation)))
        possible = self.known.bodies.get(name_of(case.operation))
        if possible and isinstance(case.body, dict):
            changed = {**case.body, **self._chance.choice(possible)}
            case.body = {name: value for name, value in changed.items() if value is not None}
        return case

    def _choose(self, names: set[str]) -> dict[str, str]:
        known = self.known.parameters
        return {name: quote(self._chance.choice(known[name]), safe="") for name in sorted(names & known.keys())}

    def _send(self, case: Case[Any], auth: Hawk) -> Sent:
        answer = case.call(self._base_url, self._session, auth=auth, allow_redirects=False, timeout=_TIMEOUT)
        return self._checked(case, answer)

    def _checked(self, case: Case[Any], answer: Any) -> Sent:
        sent = Sent(case, answer.request, answer.status_code)
        self.answered[sent.operation, sent.status] += 1
        if sent.status == 503 and answer.json()["code"] == "CallAgain":  # no failure: contract 5.1
            return sent
        try:
            case.validate_response(answer, checks=_AS_DOCUMENTED)
        except (Failure, FailureGroup) as failure:
            self.problems.append(f"{sent}\n{failure}")
        return sent


def name_of(operation: APIOperation[Any, Any, Any, Any]) -> str:
    """Returns the name of an operation in the document."""
    return str(operation.definition.raw["operationId"])


def _parameters(operation: APIOperation[Any, Any, Any, Any]) -> set[str]:
    return {parameter.name for parameter in operation.path_parameters}
