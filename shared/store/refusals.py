"""What the SDKs raise for an answer that means something to the adapters: the same as `wire` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.store.wire import REFUSED, Refused


def _refused(response: Any) -> Refused:
    return Refused(response.status_code, response.headers.get("x-ms-error-code") or _code_of_body(response))


REFUSALS: Mapping[int, Callable[[Any], Refused]] = dict.fromkeys(REFUSED, _refused)
"""The `error_map` of every SDK call: the SDKs' own errors cost a second parse, and hide the 404 of a delete."""


def _code_of_body(response: Any) -> str:
    """Azure Tables names its error in a JSON body, without a header."""
    try:
        return str(response.json()["odata.error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""
