"""Parameters and outputs: their types and what their decorators allow."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from tools.local.templates.expressions import Array, Declaration, File, Literal, Text
from tools.local.templates.values import Finding, Later, Unknown, Value

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "bool": (bool,),
    "object": (dict,),
    "array": (list,),
}
_BOUNDS: dict[str, Callable[[Value, Value], bool]] = {
    "minLength": operator.lt,
    "maxLength": operator.gt,
    "minValue": operator.lt,
    "maxValue": operator.gt,
}
"""For each bound, the comparison that shows that it is broken."""


def settled(value: Value) -> Value:
    """Returns a value as the template sees it as its parameter: all values are known when the template's deployment
    begins."""
    if isinstance(value, Later):
        return str(value)
    if isinstance(value, list):
        return [settled(each) for each in value]
    if isinstance(value, dict):
        return {key: settled(each) for key, each in value.items()}
    return value


def refuse_other_type(declared: str, value: Value, what: str, place: str) -> None:
    """Raises Finding for a value of another type than the declared one."""
    wanted = _TYPES.get(declared.rstrip("?"))
    if wanted is None:
        raise Finding(place, f"{what} has the type {declared}, which is unknown to this check")
    if isinstance(value, Unknown) or (value is None and declared.endswith("?")):
        return
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise Finding(place, f"{what} has to be {declared}, not {value!r}")


def problems(file: File, given: Mapping[str, Value], name: str) -> Iterator[Finding]:
    """Yields what is wrong with the parameters that a template is given."""
    declared = {each.name: each for each in file.of("param")}
    for unknown in given.keys() - declared.keys():
        yield Finding(file.path.name, f"{name} is given the parameter {unknown}, which it does not have")
    for each in declared.values():
        place = f"{file.path.name}:{each.line}"
        if each.name not in given:
            if each.value is None and not each.target.endswith("?"):
                yield Finding(place, f"{name} needs the parameter {each.name}")
            continue
        try:
            refuse_other_type(each.target, given[each.name], f"the parameter {each.name}", place)
            _refuse_disallowed(each, given[each.name], place)
        except Finding as finding:
            yield finding


def _refuse_disallowed(declaration: Declaration, value: Value, place: str) -> None:
    what = f"the parameter {declaration.name}"
    if isinstance(value, Unknown):
        return
    allowed = declaration.decorator("allowed")
    if allowed is not None:
        (choices,) = allowed.arguments
        assert isinstance(choices, Array)
        known = [each.plain if isinstance(each, Text) else _number(each) for each in choices.items]
        if value not in known:
            raise Finding(place, f"{what} has to be one of {', '.join(map(repr, known))}, not {value!r}")
    size = len(value) if isinstance(value, str | list) else value
    for name, compare in _BOUNDS.items():
        bound = declaration.decorator(name)
        if bound is not None and compare(size, _number(bound.arguments[0])):
            raise Finding(place, f"{what} breaks its {name} of {_number(bound.arguments[0])}: {value!r}")


def _number(expression: object) -> Value:
    assert isinstance(expression, Literal)
    return expression.value
