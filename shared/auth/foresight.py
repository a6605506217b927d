"""Early 403: refuses callers who lack the scopes whatever the request body says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from shared.auth.scopes import Expression, ScopeSet, Template

Known = Mapping[str, str]
"""The parameters that are known already: those of the URL."""


def certainly_missing(held: ScopeSet, template: Template, known: Known) -> Expression | None:
    """The scopes that the caller lacks whatever the unknown parameters (`<name>`) are; None if the call may be allowed.

    It errs only in the caller's favour: a refusal here would be a refusal later.
    """
    return _missing(held, template, known)


def _missing(held: ScopeSet, template: object, known: Known) -> Expression | None:
    if isinstance(template, str):
        begin, unknown = _filled(template, known)
        allowed = held.has_beginning(begin) if unknown else begin in held
        return None if allowed else _named(template, known)
    match dict(cast("Mapping[str, object]", template)):
        case {"AllOf": list() | tuple() as parts}:
            lacking = [_missing(held, part, known) for part in parts if not _is_optional(part)]
            remaining = [part for part in lacking if part is not None]
            return _joined("AllOf", remaining) if remaining else None
        case {"AnyOf": list() | tuple() as parts}:
            lacking = [_missing(held, part, known) for part in parts]
            remaining = [part for part in lacking if part is not None]
            return _joined("AnyOf", remaining) if len(remaining) == len(lacking) else None
        case {"for": str() as name, "each": each}:
            return _missing(held, each, {other: value for other, value in known.items() if other != name})
        case {"then": then}:
            return _missing(held, then, known)
        case _:
            raise TypeError(f"not a scope expression template: {template!r}")


def _is_optional(template: object) -> bool:
    """Whether it may render to nothing: a loop over nothing, or a condition."""
    return isinstance(template, Mapping) and ("for" in template or "if" in template)


def _filled(text: str, known: Known) -> tuple[str, bool]:
    """A scope up to its first unknown parameter, and whether there is one."""
    begin = ""
    for number, part in enumerate(text.split("<")):
        if number:
            name, _, part = part.partition(">")  # noqa: PLW2901 - what follows the parameter
            if name not in known:
                return begin, True
            begin += known[name]
        begin += part
    return begin, False


def _joined(operator: str, parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else {operator: parts}


def _named(text: str, known: Known) -> str:
    """A scope with the known parameters, and the names of the others."""
    for name, value in known.items():
        text = text.replace(f"<{name}>", value)
    return text
