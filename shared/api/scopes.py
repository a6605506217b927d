"""Scopes: satisfaction and normal form (contract 11.5), and the expressions that endpoints ask for (contract 2.2).
Pure. `certainly_missing` allows an early 403: it names scopes that are needed whatever the request body says."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, cast

Expression: TypeAlias = str | Mapping[str, Sequence["Expression"]]
"""A rendered expression, as JSON shows it: a scope, `{"AllOf": [...]}` or `{"AnyOf": [...]}`."""

Template: TypeAlias = str | Mapping[str, object]
"""An expression with `<param>` in its strings and `for`/`in`/`each` and `if`/`then` objects in its lists."""

Params: TypeAlias = Mapping[str, str | int | bool | Sequence[str]]
"""The parameters of a template: texts, lists for `for`, truth values for `if`."""


def all_of(*parts: Template) -> Template:
    """Returns a template that needs all parts."""
    return {"AllOf": list(parts)}


def any_of(*parts: Template) -> Template:
    """Returns a template that needs one of the parts."""
    return {"AnyOf": list(parts)}


def for_each(param: str, values: str, scope: str) -> Template:
    """Returns a part of `all_of` or `any_of`: this scope for each `param` of the list `values`."""
    return {"for": param, "in": values, "each": scope}


_VALID = re.compile(r"[\x20-\x7e]*")
_PLACEHOLDER = re.compile(r"<([^<>]*)>")


def is_valid(scope: object) -> bool:
    """Returns whether this is a scope: printable ASCII, possibly empty (contract 11.5)."""
    return isinstance(scope, str) and _VALID.fullmatch(scope) is not None


class ScopeSet:
    """A set of held scopes in normal form, made to be asked often: each question costs O(log n). Iterating gives the
    normal form: sorted, a scope with a trailing star before what it is a prefix of, and without the scopes that a star
    covers."""

    __slots__ = ("_exact", "_stars")

    def __init__(self, scopes: Iterable[str] = ()) -> None:
        distinct = set(scopes)
        stars: list[str] = []
        for star in sorted(scope[:-1] for scope in distinct if scope.endswith("*")):
            # In sorted order, all texts that start with a prefix follow it directly. So it is enough to compare with
            # the last prefix kept.
            if not stars or not star.startswith(stars[-1]):
                stars.append(star)
        self._stars = stars
        self._exact = frozenset(
            scope for scope in distinct if not scope.endswith("*") and not self._covered_by_star(scope)
        )

    def _covered_by_star(self, scope: str) -> bool:
        # No kept prefix starts with another one, so the only candidate is the greatest that is not after the scope.
        position = bisect_right(self._stars, scope)
        return position > 0 and scope.startswith(self._stars[position - 1])

    def __contains__(self, scope: str) -> bool:
        """Returns whether the held scopes satisfy this one. A star at its end is plain text (contract 11.5)."""
        return scope in self._exact or self._covered_by_star(scope)

    def has_beginning(self, text: str) -> bool:
        """Returns whether the held scopes satisfy some scope that starts with this text."""
        position = bisect_left(self._stars, text)
        return (
            self._covered_by_star(text)
            or (position < len(self._stars) and self._stars[position].startswith(text))
            or any(scope.startswith(text) for scope in self._exact)
        )

    def union(self, other: ScopeSet) -> ScopeSet:
        """Returns the set of all scopes that either set satisfies."""
        return self if all(scope in self for scope in other) else ScopeSet([*self, *other])

    def __iter__(self) -> Iterator[str]:
        texts = [*((star, 0) for star in self._stars), *((scope, 1) for scope in self._exact)]
        return (text if is_exact else f"{text}*" for text, is_exact in sorted(texts))

    def __len__(self) -> int:
        return len(self._exact) + len(self._stars)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScopeSet) and self._exact == other._exact and self._stars == other._stars

    def __hash__(self) -> int:
        return hash((self._exact, tuple(self._stars)))

    def __repr__(self) -> str:
        return f"ScopeSet({list(self)!r})"


def satisfies(held: ScopeSet, expression: Expression) -> bool:
    """Returns whether the held scopes satisfy the expression. Empty AllOf: yes; empty AnyOf: no (contract 11.5)."""
    if isinstance(expression, str):
        return expression in held
    operator, operands = _operation(expression)
    combine = all if operator == "AllOf" else any
    return combine(satisfies(held, operand) for operand in operands)


def missing(held: ScopeSet, expression: Expression) -> Expression | None:
    """Returns the part of the expression that is not satisfied, simplified; None when all of it is."""
    return _missing(held.__contains__, expression)


def _missing(is_held: Callable[[str], bool], expression: Expression) -> Expression | None:
    if isinstance(expression, str):
        return None if is_held(expression) else expression
    operator, operands = _operation(expression)
    lacking = [_missing(is_held, operand) for operand in operands]
    remaining = [part for part in lacking if part is not None]
    if (operator == "AllOf" and not remaining) or (operator == "AnyOf" and len(remaining) < len(lacking)):
        return None
    return remaining[0] if len(remaining) == 1 else {operator: remaining}


def _operation(expression: Mapping[str, Sequence[Expression]]) -> tuple[str, Sequence[Expression]]:
    ((operator, operands),) = expression.items()
    assert operator in ("AllOf", "AnyOf"), f"{operator} is not an operator of scope expressions"
    return operator, operands


def describe(expression: Expression) -> str:
    """Returns the expression as messages show it: the scope itself, or JSON when it is composite (contract 11.7)."""
    return expression if isinstance(expression, str) else json.dumps(expression, indent=2)


def render(template: Template, params: Params) -> Expression | None:
    """Returns the expression that a template stands for, or None when it renders to nothing (contract 2.2, 11.7). Every
    parameter that is used must be there and of the right kind: KeyError or TypeError otherwise, both meaning a defect
    of the endpoint and not of the call."""
    rendered = list(_render(template, params))
    assert len(rendered) <= 1, "'for' stands in a list of AllOf or AnyOf only"
    return rendered[0] if rendered else None


def _render(template: object, params: Params) -> Iterator[Expression]:
    if isinstance(template, str):
        yield _fill(template, params)
        return
    assert isinstance(template, Mapping), "a template is a string or an object"
    if len(template) == 1:
        ((operator, parts),) = template.items()
        if operator not in ("AllOf", "AnyOf"):
            raise TypeError(f"not a scope expression template: {template!r}")
        yield {operator: [each for part in cast("list[object]", parts) for each in _render(part, params)]}
        return
    match template:
        case {"for": str() as name, "in": str(), "each": each, **rest} if not rest:
            for item in _items(template, params):
                yield from _render(each, {**params, name: item})
        case {"if": str(), "then": then, **rest} if not rest:
            if _is_on(template, params):
                yield from _render(then, params)
        case _:
            raise TypeError(f"not a scope expression template: {template!r}")


def _items(template: Mapping[str, object], params: Params) -> Sequence[str]:
    """Returns the list that a `for` iterates over. Raises TypeError if the parameter is no list."""
    source = cast(str, template["in"])
    items = params[source]
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise TypeError(f"parameter {source} of 'for' must be a list")
    return items


def _is_on(template: Mapping[str, object], params: Params) -> bool:
    """Returns whether the condition of an `if` holds."""
    condition = cast(str, template["if"])
    value = params[condition]
    if not isinstance(value, bool):
        raise TypeError(f"parameter {condition} of 'if' must be a truth value")
    return value


def _fill(text: str, params: Params) -> str:
    begin, *placeholders = _pieces(text)
    for name, after in zip(placeholders[::2], placeholders[1::2], strict=True):
        param = params[name]
        if isinstance(param, bool) or not isinstance(param, str | int):
            raise TypeError(f"parameter {name} of a scope must be a text or a number")
        begin += f"{param}{after}"
    return begin


@lru_cache(maxsize=1024)
def _pieces(text: str) -> list[str]:
    """Returns the texts between placeholders and the names of the placeholders, alternately."""
    return _PLACEHOLDER.split(text)


def holds(held: ScopeSet, template: Template, params: Params) -> bool:
    """Returns whether the held scopes satisfy what a template renders to, without building it. Raises as `render`."""
    return all(_each_holds(held, template, params))


def _each_holds(held: ScopeSet, template: object, params: Params) -> Iterator[bool]:
    """Yields, for each expression that the template renders to, whether the held scopes satisfy it."""
    if isinstance(template, str):
        yield _fill(template, params) in held
        return
    assert isinstance(template, Mapping), "a template is a string or an object"
    if "for" in template:
        for item in _items(template, params):
            yield from _each_holds(held, template["each"], {**params, template["for"]: item})
    elif "if" in template:
        if _is_on(template, params):
            yield from _each_holds(held, template["then"], params)
    else:
        ((operator, parts),) = template.items()
        combine = {"AllOf": all, "AnyOf": any}[operator]
        yield combine(each for part in parts for each in _each_holds(held, part, params))


def params_of(template: object) -> set[str]:
    """Returns the parameters that a template needs from outside. If all of them are URL parameters, the endpoint is of
    kind U (contract 1.5)."""
    if isinstance(template, str):
        return set(_PLACEHOLDER.findall(template))
    assert isinstance(template, Mapping), "a template is a string or an object"
    match dict(template):
        case {"AllOf": parts} | {"AnyOf": parts}:
            return {name for part in parts for name in params_of(part)}
        case {"for": name, "in": source, "each": each}:
            return (params_of(each) - {name}) | {source}
        case {"if": condition, "then": then}:
            return params_of(then) | {condition}
        case _:
            raise TypeError(f"not a scope expression template: {template!r}")


def certainly_missing(held: ScopeSet, template: Template, known: Mapping[str, str]) -> Expression | None:
    """Returns the scopes that the caller lacks for every value of the unknown parameters (`<name>`); None if the call
    may be allowed. `known` are the parameters of the URL. It may miss a refusal, but never invents one: whoever is
    refused here would also be refused with all parameters known."""

    def may_be_held(scope: str) -> bool:
        begin, unknown, _ = scope.partition("<")
        return held.has_beginning(begin) if unknown else begin in held

    return _missing(may_be_held, _as_known(template, known))


def _as_known(template: object, known: Mapping[str, str]) -> Expression:
    """Returns the expression that is needed whatever the unknown parameters are. It contains their names in place of
    their values."""
    if isinstance(template, str):
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), template)
    match dict(cast("Mapping[str, object]", template)):
        case {"AllOf": list() | tuple() as parts}:
            return {"AllOf": [_as_known(part, known) for part in parts if not is_optional(part)]}
        case {"AnyOf": list() | tuple() as parts}:
            return {"AnyOf": [_as_known(part, known) for part in parts]}
        case {"for": str() as name, "each": each}:
            return _as_known(each, {other: value for other, value in known.items() if other != name})
        case {"then": then}:
            return _as_known(then, known)
        case _:
            raise TypeError(f"not a scope expression template: {template!r}")


def is_optional(template: object) -> bool:
    """Returns whether a template may render to nothing: a loop over nothing, or a condition."""
    return isinstance(template, Mapping) and ("for" in template or "if" in template)
