"""Evaluates expressions."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from tools.local.templates import functions
from tools.local.templates.expressions import (
    Array,
    Call,
    Declaration,
    Expression,
    File,
    Grouped,
    Lambda,
    Literal,
    Loop,
    Member,
    Name,
    Object,
    Operation,
    Text,
)
from tools.local.templates.resource_types import WRITE_ONLY
from tools.local.templates.values import (
    NOWHERE,
    Finding,
    Later,
    ModuleReference,
    Namespace,
    Place,
    Reference,
    Resource,
    Unknown,
    Value,
    answer,
    is_late,
)

Locals = dict[str, Value]
_EARLY = {"id", "name", "type", "apiVersion"}
"""Properties of a resource that are known before it is deployed."""
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "=~": lambda left, right: left.lower() == right.lower(),
    "!~": lambda left, right: left.lower() != right.lower(),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
}


class Evaluator(ABC):
    """Evaluates the expressions of one file."""

    def __init__(self, file: File, group: str | None, where: Place = NOWHERE) -> None:
        self.file, self.group, self.where = file, group, where
        self.keys_read: list[str] = []

    @abstractmethod
    def symbol(self, name: str, line: int) -> Value:
        """Returns the value of a declared symbol. Raises Finding."""

    def place(self, at: Expression | Declaration) -> str:
        """Returns file and line."""
        return f"{self.file.path.name}:{at.line}"

    def value(self, expression: Expression, local: Locals) -> Value:
        """Returns the value of an expression, given loop variables and parameters of lambdas. Raises Finding."""
        try:
            return self._value(expression, local)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, StopIteration, OSError) as error:
            if isinstance(error, Finding):
                raise
            raise Finding(self.place(expression), f"this fails: {error!r}") from error

    def _value(self, expression: Expression, local: Locals) -> Value:
        match expression:
            case Literal(value=value):
                return value
            case Text():
                return self._text(expression, local)
            case Name(name=name):
                return local[name] if name in local else self.symbol(name, expression.line)
            case Grouped(body=body):
                return self.value(body, local)
            case Array(items=items):
                return [self.value(each, local) for each in items]
            case Object(properties=properties):
                return {str(self._text(key, local)): self.value(each, local) for key, each in properties}
            case Loop():
                return [self.value(expression.body, each) for each in self.rounds(expression, local)]
            case Operation():
                return self._operation(expression, local)
            case Member(of=of, index=index):
                return self._member(self.value(of, local), self.value(index, local), expression)
            case Call():
                return self._call(expression, local)
        raise Finding(self.place(expression), f"{type(expression).__name__} cannot stand here")

    def rounds(self, loop: Loop, local: Locals) -> Iterator[Locals]:
        """Yields the variables of each round of a loop."""
        source = self.value(loop.source, local)
        if not isinstance(source, list):
            raise Finding(self.place(loop), f"this is no list: {source!r}")
        for number, item in enumerate(source):
            names = {**local, loop.item: item, **({loop.index: number} if loop.index else {})}
            if loop.condition is None or self.value(loop.condition, names):
                yield names

    def _text(self, text: Text, local: Locals) -> str | Unknown:
        parts: list[str] = []
        late = False
        for part in text.parts:
            value = part if isinstance(part, str) else self.value(part, local)
            if isinstance(value, Unknown):
                return value
            if isinstance(value, Reference | ModuleReference | Namespace | dict | list) or value is None:
                raise Finding(self.place(text), f"{type(value).__name__} cannot be part of a text")
            late = late or is_late(value)
            parts.append(value if isinstance(value, str) else functions.call("string", [value]))
        return Later("".join(parts)) if late else "".join(parts)

    def _operation(self, operation: Operation, local: Locals) -> Value:
        first = self.value(operation.operands[0], local)
        if isinstance(first, Unknown):
            return first
        match operation.operator, len(operation.operands):
            case "?", _:
                return self.value(operation.operands[1 if first else 2], local)
            case "&&", _:
                return bool(first and self.value(operation.operands[1], local))
            case "||", _:
                return bool(first or self.value(operation.operands[1], local))
            case "??", _:
                return self.value(operation.operands[1], local) if first is None else first
            case "!", _:
                return not first
            case "-", 1:
                return -first
        return _BINARY[operation.operator](first, self.value(operation.operands[1], local))

    def _member(self, of: Value, index: Value, member: Member) -> Value:
        if isinstance(of, Unknown):
            return Unknown(f"{of.what}.{index}")
        if isinstance(of, Reference):
            return self._property(of, index, self.place(member))
        if isinstance(of, ModuleReference):
            return self._output(of, index, self.place(member))
        if isinstance(of, Namespace):
            of = of.values
        if isinstance(of, list) and isinstance(index, int):
            return of[index]
        if not isinstance(of, dict):
            raise Finding(self.place(member), f"{of!r} has no {index}")
        found = {key.lower(): value for key, value in of.items()}
        if str(index).lower() not in found:
            if member.safe:
                return None
            raise Finding(self.place(member), f"there is no {index}, only {', '.join(sorted(of))}")
        return found[str(index).lower()]

    def _property(self, of: Reference, name: str, place: str) -> Value:
        resource = of.resource
        if not of.path and name in _EARLY:
            known = {"id": resource.id, "name": resource.name.rpartition("/")[2], "type": resource.type}
            return known.get(name, resource.version)
        if not resource.deployed and not resource.existing:
            raise Finding(place, f"{resource.symbol} is not deployed here, and nothing can be read of it")
        shape = of.shape or resource.shape
        known_properties = shape.properties()
        if name not in known_properties and not shape.open():
            raise Finding(place, f"{resource.type} has no {'.'.join((*of.path, name))}")
        inner, flags = known_properties.get(name, (None, 0))
        path = (*of.path, name)
        if flags & WRITE_ONLY:
            raise Finding(place, f"{'.'.join(path)} of {resource.type} cannot be read")
        value = _literal(resource, path) or answer(resource.type, resource.name, ".".join(path))
        if isinstance(value, str):
            return Later(value)
        if inner is not None and inner.properties():
            return Reference(resource, path, inner)
        return Unknown(f"{resource.symbol}.{'.'.join(path)}", inner)

    def _output(self, of: ModuleReference, name: str, place: str) -> Value:
        if not of.outputs:
            if name not in ("outputs", "name"):
                raise Finding(place, f"a module has no {name}")
            return ModuleReference(of.module, of.name, of.place, outputs=True) if name == "outputs" else of.name
        if of.module is None:
            raise Finding(place, f"the module {of.name} is not deployed here, and has no outputs")
        if name not in {each.name for each in of.module.file.of("output")}:
            raise Finding(place, f"the module {of.name} has no output {name}")
        value = of.module.outputs.get(name, Unknown(f"{of.name}.{name}"))
        return Later(value) if isinstance(value, str) else value

    def _call(self, call: Call, local: Locals) -> Value:
        if call.of is not None:
            owner = self.value(call.of, local)
            if not isinstance(owner, Reference) or not call.function.startswith("list"):
                raise Finding(self.place(call), f"{call.function} is no method")
            self.keys_read.append(f"{self.place(call)} {call.function}")
            return Unknown(f"{owner.resource.symbol}.{call.function}()")
        if call.function in functions.WITH_LAMBDAS:
            return self._with_lambda(call, local)
        arguments = [self.value(each, local) for each in call.arguments]
        if call.function in functions.WITH_FILES:
            return functions.load(call.function, self.file.path.parent, arguments[0])
        if call.function in functions.ONCE:
            raise Finding(self.place(call), f"{call.function} gives another value in each deployment")
        if call.function in functions.OF_A_PLACE:
            return self._of_place(call, arguments)
        if call.function not in functions.FUNCTIONS:
            raise Finding(self.place(call), f"the function {call.function} is unknown")
        return functions.call(call.function, arguments)

    def _of_place(self, call: Call, arguments: list[Value]) -> Value:
        subscription, tenant = self.where
        match call.function:
            case "subscriptionResourceId":
                return functions.resource_id(*arguments, subscription=subscription)
            case "subscription":
                return Namespace({"id": f"/subscriptions/{subscription}", "subscriptionId": subscription})
            case "tenant":
                return Namespace({"tenantId": tenant})
        if self.group is None:
            raise Finding(self.place(call), "there is no resource group at this scope")
        return Namespace({"name": self.group, "id": f"/subscriptions/{subscription}/resourceGroups/{self.group}"})

    def _with_lambda(self, call: Call, local: Locals) -> Value:
        source, using = self.value(call.arguments[0], local), call.arguments[1]
        assert isinstance(using, Lambda)
        name = using.parameters[0]
        values = [self.value(using.body, {**local, name: each}) for each in source]
        match call.function:
            case "map":
                return values
            case "filter":
                return [each for each, kept in zip(source, values, strict=True) if kept]
            case "any":
                return any(values)
        return all(values)


def _literal(resource: Resource, path: tuple[str, ...]) -> Value:
    """Returns the text at a path of the resource's own body, if there is one."""
    value: Value = resource.body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return str(value) if isinstance(value, str) else None
