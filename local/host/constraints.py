"""Inline constraints of route parameters: `{id:int}`, `{id:length(22)}`, `{name:regex(^[a-z]+$)}`."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_NAMED = re.compile(r"([A-Za-z]+)(?:\((.*)\))?", re.DOTALL)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_GUID = re.compile(r"\{?[0-9a-f]{8}(-?)(?:[0-9a-f]{4}\1){3}[0-9a-f]{12}\}?", re.IGNORECASE)


@dataclass(frozen=True)
class Constraint:
    """A constraint as written, and whether it accepts a value."""

    text: str
    accepts: Callable[[str], bool]


def parse_constraints(text: str) -> tuple[Constraint, ...]:
    """Constraints separated by colons. Raises ValueError on one that is malformed or not known."""
    return tuple(_parse(part) for part in _split(text))


def _split(text: str) -> list[str]:
    parts = [""]
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ":" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _parse(text: str) -> Constraint:
    match = _NAMED.fullmatch(text)
    name, argument = (match[1].lower(), match[2]) if match else ("", None)
    if argument is None and name in _PLAIN:
        return Constraint(text, _PLAIN[name])
    if argument is not None and name == "regex":
        return Constraint(text, _regex(argument))
    if argument is not None and name in _BOUNDED:
        bounds = argument.split(",")
        make, counts = _BOUNDED[name]
        if len(bounds) in counts and all(_WHOLE.fullmatch(bound) for bound in bounds):
            return Constraint(text, make(*map(int, bounds)))
    raise ValueError(f"the constraint {text!r} is malformed or not known to the local host")


def _regex(argument: str) -> Callable[[str], bool]:
    try:
        pattern = re.compile(argument.replace("{{", "{").replace("}}", "}"), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"the expression {argument!r} is not valid: {error}") from None
    return lambda value: pattern.search(value) is not None


def _integer(bits: int) -> Callable[[str], bool]:
    return lambda value: bool(_WHOLE.fullmatch(value)) and -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1)


def _length(low: int, high: int | None = None) -> Callable[[str], bool]:
    return lambda value: low <= len(value) <= (low if high is None else high)


def _between(low: int | None, high: int | None) -> Callable[[str], bool]:
    int64 = _integer(64)
    return lambda value: int64(value) and (low is None or low <= int(value)) and (high is None or int(value) <= high)


_PLAIN: dict[str, Callable[[str], bool]] = {
    "alpha": lambda value: re.fullmatch("[A-Za-z]*", value) is not None,
    "bool": lambda value: value.strip().lower() in {"true", "false"},
    "decimal": lambda value: _DECIMAL.fullmatch(value) is not None,
    "double": lambda value: _DECIMAL.fullmatch(value) is not None,
    "float": lambda value: _DECIMAL.fullmatch(value) is not None,
    "guid": lambda value: _GUID.fullmatch(value) is not None,
    "int": _integer(32),
    "long": _integer(64),
    "required": lambda value: value != "",
}

_BOUNDED: dict[str, tuple[Callable[..., Callable[[str], bool]], tuple[int, ...]]] = {
    "length": (_length, (1, 2)),
    "minlength": (lambda low: _length(low, 2**31), (1,)),
    "maxlength": (lambda high: _length(0, high), (1,)),
    "min": (lambda low: _between(low, None), (1,)),
    "max": (lambda high: _between(None, high), (1,)),
    "range": (_between, (2,)),
}
