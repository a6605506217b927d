"""JSON as the service reads and writes it: by compiled code, within limits, and never anything but valid JSON.

What a text of a given size may cost to read differs by a factor of a hundred: ten megabytes can be one string or
five million objects. So a text is measured before it is read. Numbers are those of JavaScript (contract 1.4). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pydantic_core

from shared.base.errors import ServiceError
from shared.base.frozen import dataclass

MAX_NESTING = 100
"""The most levels of arrays and objects inside one another."""
MAX_VALUES = 200_000
"""The most values in one text, of which an array or object counts as two. This limits the memory and the time that
reading takes."""
MAX_DIGITS = 100
"""The most digits of a number. Parsing an integer takes time that grows with the square of its length."""

_EXACT_DIGITS = 15
"""Every integer with up to this many digits has a double of its own."""
_EXACT = 10**_EXACT_DIGITS
_EXPONENT_FROM = 1e21
"""JavaScript writes larger numbers with an exponent."""

_BRACKETS = b"[]{}"
_NO_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_STEP = tuple(1 if byte in b"[{" else -1 for byte in range(256))
_TO_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))

_CONTINUATION = bytes(range(0x80, 0xC0))
"""Byte values of UTF-8 that continue a character."""
_LATIN = bytes(range(0xC4))
_TWO_BYTES = bytes(range(0xF0))
"""Byte values in the UTF-8 of characters that Python stores in one byte each, and in up to two."""
_SIZES = {b",": 40, b"[": 80, b"{": 100, b":": 60}
"""Bytes of memory for what each sign announces: another value, a list, an object, a name."""
_BYTES_PER_QUOTE = 28
"""Bytes of memory for each quote; a string has two."""
_BYTES_PER_TEXT = 500


class BeyondLimits(ServiceError, ValueError):
    """The text may be JSON, but is nested too deeply, or has too many values or too long numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """The cost of parsing a JSON text that is within the limits."""

    memory: int
    """Estimated bytes of its values in memory."""
    has_other_numbers: bool
    """Whether a number has a fraction, an exponent or many digits, so that JavaScript may write it differently."""


def measure(text: bytes) -> Measure:
    """Estimates what a text costs to parse without building its values, in some milliseconds a megabyte. The estimate
    for invalid JSON covers the part before the error, since a parser gets no further. Raises BeyondLimits, which names
    the limit."""
    bare = _without_strings(text)
    values = 1 + bare.count(b",") + bare.count(b"[") + bare.count(b"{")
    if values > MAX_VALUES:
        raise BeyondLimits(f"there are more than {MAX_VALUES} values (arrays and objects count twice)")
    steps = map(_STEP.__getitem__, bare.translate(None, _NO_BRACKETS)[: 2 * MAX_VALUES])
    if max(accumulate(steps), default=0) > MAX_NESTING:
        raise BeyondLimits(f"arrays and objects are nested more than {MAX_NESTING} levels deep")
    digits = bare.translate(_TO_DIGITS)
    if b"0" * (MAX_DIGITS + 1) in digits:
        raise BeyondLimits(f"a number has more than {MAX_DIGITS} digits")
    has_other_numbers = b"." in bare or b"0" * (_EXACT_DIGITS + 1) in digits
    if not has_other_numbers:
        rest = bare.replace(b"true", b"").replace(b"false", b"")
        has_other_numbers = b"e" in rest or b"E" in rest
    return Measure(memory=memory_of(text, bare), has_other_numbers=has_other_numbers)


def _without_strings(text: bytes) -> bytes:
    """Returns the text with each string replaced by a single quote. Raises BeyondLimits for too many strings."""
    if b"\\" in text:
        # In valid JSON a backslash occurs only in strings, and escapes are read from the left.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if text.count(b'"') > 4 * MAX_VALUES:
        raise BeyondLimits(f"there are more than {MAX_VALUES} values with their names")
    return b'"'.join(text.split(b'"')[::2])


def memory_of(text: bytes, bare: bytes | None = None) -> int:
    """Returns an upper estimate of the bytes that the values of a JSON text take in memory. `bare` is the text without
    its strings, if the caller has it. Without it, signs inside strings are counted as well."""
    counted = text if bare is None else bare
    values = sum(counted.count(sign) * size for sign, size in _SIZES.items())
    characters = len(text)  # as one Python string, in which the widest decides how many bytes each takes
    if not text.isascii():
        width = 4 if text.translate(None, _TWO_BYTES) else 2 if text.translate(None, _LATIN) else 1
        characters = width * len(text.translate(None, _CONTINUATION))
    return _BYTES_PER_TEXT + characters + values + text.count(b'"') * _BYTES_PER_QUOTE


def read(text: bytes, measured: Measure | None = None) -> Any:
    """Returns the value of a JSON text, with JavaScript's numbers. Raises BeyondLimits, or ValueError if it is none."""
    measured = measured or measure(text)
    value = pydantic_core.from_json(text, allow_inf_nan=False)
    return in_javascript(value) if measured.has_other_numbers else value


def in_javascript(value: Any) -> Any:
    """Returns a JSON value with the numbers that `JSON.stringify(JSON.parse(…))` gives; lists and objects are changed
    in place. Every number is rounded to a double. A whole number below 1e21 is an integer with the double's shortest
    digits, then zeros. A number beyond a double's range becomes null."""
    kind = type(value)
    if kind is dict:
        for name, inner in value.items():
            if type(inner) is not str:
                value[name] = in_javascript(inner)
    elif kind is list:
        for index, inner in enumerate(value):
            if type(inner) is not str:
                value[index] = in_javascript(inner)
    elif kind is float or (kind is int and not -_EXACT < value < _EXACT):
        return _number(float(value))
    return value


def _number(value: float) -> int | float | None:
    if math.isinf(value):
        return None
    if not value.is_integer() or not -_EXPONENT_FROM < value < _EXPONENT_FROM:
        return value
    if -_EXACT < value < _EXACT:
        return int(value)
    shortest, _, exponent = repr(value).partition("e")
    whole, _, fraction = shortest.partition(".")
    return int(whole + fraction + "0" * (int(exponent) - len(fraction))) if exponent else int(whole)


def read_back(text: bytes) -> Any:
    """Returns the value of a JSON text that this service wrote."""
    return pydantic_core.from_json(text)


def write(value: Any) -> bytes:
    """Returns the JSON text of a value, in UTF-8 and without spaces. A float without a JSON form becomes null."""
    return pydantic_core.to_json(value, inf_nan_mode="null", fallback=_as_dict)


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
