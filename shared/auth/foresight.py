"""Whether a caller could be allowed a call at all, before what its scopes depend on has been read. Pure."""

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
    return None if _may_satisfy(held, template, known) else _shown(template, known)


def _may_satisfy(held: ScopeSet, template: object, known: Known) -> bool:
    if isinstance(template, str):
        begin, unknown = _filled(template, known)
        return held.has_beginning(begin) if unknown else begin in held
    match dict(cast("Mapping[str, object]", template)):
        case {"AllOf": list() | tuple() as parts}:
            return all(_is_optional(part) or _may_satisfy(held, part, known) for part in parts)
        case {"AnyOf": list() | tuple() as parts}:
            return any(_may_satisfy(held, part, known) for part in parts)
        case {"for": str() as name, "each": each}:
            return _may_satisfy(held, each, {other: value for other, value in known.items() if other != name})
        case {"then": then}:
            return _may_satisfy(held, then, known)
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


def _shown(template: object, known: Known) -> Expression:
    if isinstance(template, str):
        shown = template
        for name, value in known.items():
            shown = shown.replace(f"<{name}>", value)
        return shown
    match dict(cast("Mapping[str, object]", template)):
        case {"AllOf": list() | tuple() as parts}:
            return {"AllOf": [_shown(part, known) for part in parts if not _is_optional(part)]}
        case {"AnyOf": list() | tuple() as parts}:
            return {"AnyOf": [_shown(part, known) for part in parts]}
        case {"each": inner} | {"then": inner}:
            return _shown(inner, known)
        case _:
            raise TypeError(f"not a scope expression template: {template!r}")
