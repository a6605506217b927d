"""From bytes to validated bodies, parameters and page options (contract 1.4, 1.5, 13)."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypedDict, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from shared.api.endpoint import PARAMETERS, Endpoint
from shared.base import bounds
from shared.base.errors import (
    InputError,
    InputTooLarge,
    InputValidationError,
    InvalidRequestArguments,
    LengthRequired,
    MalformedPayload,
)
from shared.base.jsontext import BeyondLimits, Measure, measure, read

MAX_BODY = 1024 * 1024
"""The most bytes of a request's body: more would not fit into a Functions instance's memory (docs/scaling.md)."""
MOST_CHECKED = 30_000
"""The most values of a body that are checked one by one by its schema. Values in free-form objects do not count."""
_MOST_ERRORS = 50
"""The most schema errors that one message lists."""


def is_json(content_type: str) -> bool:
    """Returns whether a content type is JSON's, with any parameters."""
    return content_type.split(";", 1)[0].strip().lower() == "application/json"


def check_length(endpoint: Endpoint, headers: Mapping[str, str]) -> None:
    """Raises LengthRequired for a body that is sent in chunks, and for a missing Content-Length where the endpoint
    needs a body. The Functions host passes on no byte of a body in chunks, and calls the function nevertheless."""
    if "transfer-encoding" in headers:
        raise LengthRequired(
            "a body in chunks (Transfer-Encoding) does not arrive here: send it whole, with its Content-Length"
        )
    if (endpoint.takes_content or endpoint.input is not None) and not headers.get("content-length", "").isdecimal():
        raise LengthRequired("this call needs a body: send it whole, with its Content-Length")


def check_size(size: int) -> None:
    """Raises InputTooLarge for a body of that size in bytes, if it is beyond the limit."""
    if size > MAX_BODY:
        raise InputTooLarge(f"the request body must not be larger than {MAX_BODY} bytes")


def measure_body(body: bytes) -> Measure:
    """Returns the estimated cost of parsing a JSON body. Raises InputError if it is beyond the limits."""
    try:
        return measure(body)
    except BeyondLimits as error:
        raise InputError(f"the request body is beyond a limit: {error}") from None


def parse_body(body: bytes, measured: Measure) -> Any:
    """Returns the object or array of a JSON body, with or without a byte order mark. Raises MalformedPayload."""
    try:
        payload = read(body.removeprefix(codecs.BOM_UTF8), measured)
    except ValueError as error:
        raise MalformedPayload(f"the request body is not JSON: {error}") from None
    if not isinstance(payload, dict | list):
        raise MalformedPayload("the request body must be a JSON object or array")
    return payload


def validate_params(endpoint: Endpoint, params: Mapping[str, str]) -> None:
    """Checks every URL parameter against its pattern. Raises InvalidRequestArguments."""
    problems = [
        f"URL parameter '{name}' given as '{value}' must match regular expression: {PARAMETERS[name]}"
        for name, value in params.items()
        if not _matches(PARAMETERS[name], value)
    ]
    if problems:
        raise InvalidRequestArguments("Invalid URL patterns:\n" + "\n".join(problems))


def validate_query(endpoint: Endpoint, query: str) -> dict[str, str]:
    """Returns the query options without `bewit`, which is always allowed. Raises InvalidRequestArguments for unknown,
    repeated or malformed ones."""
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
    """Validates the body against the endpoint's schema and fills in defaults. Returns None for an endpoint without a
    body. Raises MalformedPayload, InputValidationError with all that is wrong, InputError for too many values."""
    if endpoint.input is None:
        return None
    if payload is None:
        raise MalformedPayload("Payload must be JSON with content-type: application/json")
    _check_breadth(payload, endpoint.opaque)
    try:
        return endpoint.input.model_validate(payload)
    except ValidationError as error:
        raise InputValidationError(_describe(endpoint, error)) from None


def _check_breadth(payload: Any, opaque: Collection[str]) -> None:
    """Raises InputError when checking every value, and listing all that is wrong with them, would take too long."""
    if isinstance(payload, dict):
        payload = [value for name, value in payload.items() if name not in opaque]
    remaining = MOST_CHECKED
    unseen = deque([payload])
    while unseen:
        values = unseen.popleft()
        remaining -= len(values)
        if remaining < 0:
            raise InputError(f"the request body has more than {MOST_CHECKED} values outside of free-form objects")
        inner = values.values() if isinstance(values, dict) else values
        unseen.extend(value for value in inner if isinstance(value, dict | list))


_SAID = {"missing": "is required", "extra_forbidden": "is not a known property"}
"""What is said of a problem in place of pydantic's words."""


def _describe(endpoint: Endpoint, error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"Schema Validation Failed!\nRejecting Schema: v1/{endpoint.input_schema}.json#\nErrors:"]
    for problem in problems[:_MOST_ERRORS]:
        place = "".join(f"[{word}]" if isinstance(word, int) else f".{word}" for word in problem["loc"])
        lines.append(f"  * data{place} {_SAID.get(problem['type'], problem['msg'])}")
    if len(problems) > _MOST_ERRORS:
        lines.append(f"  * and {len(problems) - _MOST_ERRORS} more")
    return "\n".join(lines)


_QUADRATIC = {r"^[1-9]*[0-9]+$": r"^[0-9]+$"}
"""Published patterns whose matching takes quadratic time, each with an equivalent that takes linear time."""


def _matches(pattern: str, value: str) -> bool:
    pattern = _QUADRATIC.get(pattern, pattern)
    # `$` also matches before a trailing newline in Python, which no pattern here means.
    return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value, re.DOTALL) is not None


_LONGEST = 513
"""The most characters of the key at which a page starts: one more than any key has."""


def limit_of(query: Mapping[str, str], default: int = bounds.PAGE) -> int:
    """Returns how many entries the page may hold. A larger number than the maximum is capped, and 0 gives an empty
    page."""
    # A number may have very many digits, so one that is certainly too large is capped without being parsed.
    text = query.get("limit", str(default)).lstrip("0") or "0"
    return min(int(text[:6]), bounds.PAGE) if len(text) <= 6 else bounds.PAGE


def start_of(query: Mapping[str, str]) -> str:
    """Returns the key at which the page starts; empty for the first page. Raises InputError for others' tokens."""
    token = query.get("continuationToken")
    if token is None:
        return ""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise InputError("invalid continuationToken") from None
    if not text.isprintable() or len(text) > _LONGEST:
        raise InputError("invalid continuationToken")
    return text


class Place(TypedDict):
    """The start of a page of a list, and the most entries that it may have."""

    start: str
    limit: int


def place_of(query: Mapping[str, str]) -> Place:
    """Returns the place of the page that a call asks for, with up to 1,000 entries unless it says how many. Raises
    InputError as `start_of` does."""
    return Place(start=start_of(query), limit=limit_of(query))


def token_of(start: str) -> str:
    """Returns the token, safe in URLs, of the page that starts at this key."""
    return base64.urlsafe_b64encode(start.encode("ascii")).rstrip(b"=").decode()


def continued(resume: str | None) -> dict[str, str]:
    """Returns the `continuationToken` of the next page as a property, or no property after the last page."""
    return {} if resume is None else {"continuationToken": token_of(resume)}


Item = TypeVar("Item")


def page_of(
    name: str, page: tuple[list[Item], str | None], shown: Callable[[Item], Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns the JSON of a page of a list, its items under `name`."""
    entries, resume = page
    return {name: [shown(entry) for entry in entries], **continued(resume)}
