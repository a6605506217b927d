"""From bytes to validated bodies and parameters (contract 1.4, 1.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import pydantic_core
from pydantic import BaseModel, ValidationError

from shared.api.endpoint import PARAMETERS, Endpoint
from shared.errors import InputTooLarge, InputValidationError, InvalidRequestArguments, MalformedPayload

MAX_BODY = 10 * 1024 * 1024
"""Bytes of a request's body."""
_MOST_ERRORS = 50
"""Schema errors that one message lists."""


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON's, with any parameters."""
    return content_type.split(";", 1)[0].strip().lower() == "application/json"


def parse_body(content_type: str, body: bytes) -> Any:
    """The JSON object or array of a body; None when there is none or it is of another type.

    Raises MalformedPayload, InputTooLarge.
    """
    if len(body) > MAX_BODY:
        raise InputTooLarge(f"the request body must not be larger than {MAX_BODY} bytes")
    if not body or not is_json(content_type):
        return None
    try:
        payload = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise MalformedPayload(f"the request body is not JSON: {error}") from None
    if not isinstance(payload, dict | list):
        raise MalformedPayload("the request body must be a JSON object or array")
    return payload


def validate_params(endpoint: Endpoint, params: Mapping[str, str]) -> None:
    """Every URL parameter against its pattern. Raises InvalidRequestArguments."""
    problems = [
        f"URL parameter '{name}' given as '{value}' must match regular expression: {PARAMETERS[name]}"
        for name, value in params.items()
        if not _matches(PARAMETERS[name], value)
    ]
    if problems:
        raise InvalidRequestArguments("Invalid URL patterns:\n" + "\n".join(problems))


def validate_query(endpoint: Endpoint, query: str) -> dict[str, str]:
    """The query options; `bewit` is always allowed. Raises InvalidRequestArguments for unknown or repeated ones."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for name, value in parse_qsl(query, keep_blank_values=True, errors="replace"):
        if name == "bewit":
            continue
        if name not in endpoint.query:
            problems.append(f"query option '{name}' is not known")
        elif name in found:
            problems.append(f"query option '{name}' is given more than once")
        elif not _matches(endpoint.query[name], value):
            problems.append(f"query option '{name}' must match regular expression: {endpoint.query[name]}")
        else:
            found[name] = value
    if problems:
        raise InvalidRequestArguments("Invalid query:\n" + "\n".join(problems))
    return found


def validate_payload(endpoint: Endpoint, payload: Any, content_type: str) -> BaseModel | None:
    """The body against the endpoint's schema, with defaults filled in; None for an endpoint without one.

    Raises MalformedPayload, InputValidationError with all that is wrong.
    """
    if endpoint.input is None:
        return None
    if payload is None:
        raise MalformedPayload("Payload must be JSON with content-type: application/json")
    try:
        return endpoint.input.model_validate(payload)
    except ValidationError as error:
        raise InputValidationError(_describe(endpoint, error)) from None


def _describe(endpoint: Endpoint, error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"  * {_place(problem['loc'])} {_plain(problem)}" for problem in problems[:_MOST_ERRORS]]
    if len(problems) > _MOST_ERRORS:
        lines.append(f"  * and {len(problems) - _MOST_ERRORS} more")
    listed = "\n".join(lines)
    return f"Schema Validation Failed!\nRejecting Schema: v1/{endpoint.input_schema}.json#\nErrors:\n{listed}"


def _place(location: tuple[int | str, ...]) -> str:
    return "data" + "".join(f"[{word}]" if isinstance(word, int) else f".{word}" for word in location)


def _plain(problem: pydantic_core.ErrorDetails) -> str:
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a known property"
        case _:
            return problem["msg"]


def _matches(pattern: str, value: str) -> bool:
    # `$` also matches before a trailing newline in Python, which no pattern here means.
    return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value, re.DOTALL) is not None
