"""Checks that secure parameters stay secure: no value in the file, none in outputs, none recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.local.templates import syntax
from tools.local.templates.expressions import Call, Declaration, Expression, File, Loop, Name, Object, Operation, Text
from tools.local.templates.values import Finding

_SAY_NO_MORE = {"contains", "empty", "length"}
"""Functions whose result does not show what their arguments are."""
_SECRET_WORDS = ("token", "secret", "password", "keys")
"""Ends of names that say that a text is secret."""


def problems(main: Path) -> Iterator[Finding]:
    """Yields what is wrong in main.bicep and all modules below its folder. Raises SyntaxFault."""
    files = {path.resolve(): syntax.read(path) for path in sorted(main.parent.rglob("*.bicep"))}
    for file in files.values():
        yield from _parameters(file)
        secret = _secret_names(file)
        for output in file.of("output"):
            if output.value is not None and output.decorator("secure") is None and _shows(output.value, secret):
                yield _finding(file, output.line, f"the output {output.name} has a secret, which deployments record")
        for module in file.of("module"):
            target = files.get((file.path.parent / module.target).resolve())
            if target is not None:
                yield from _passed_on(file, module, target, secret)


def _finding(file: File, line: int, text: str) -> Finding:
    return Finding(f"{file.path.name}:{line}", text)


def _parameters(file: File) -> Iterator[Finding]:
    for parameter in file.of("param"):
        is_secure = parameter.decorator("secure") is not None
        plain = parameter.value.plain if isinstance(parameter.value, Text) else ""
        if is_secure and plain != "" and parameter.value is not None:
            yield _finding(file, parameter.line, f"the secure parameter {parameter.name} has a value in the file")
        if not is_secure and parameter.target == "string" and parameter.name.lower().endswith(_SECRET_WORDS):
            yield _finding(file, parameter.line, f"{parameter.name} is not @secure(): deployments record its value")


def _secret_names(file: File) -> set[str]:
    """Returns the secure parameters, and the variables that show one."""
    found = {each.name for each in file.of("param") if each.decorator("secure") is not None}
    variables = [each for each in file.of("var") if each.value is not None]
    while more := {each.name for each in variables if each.value and _shows(each.value, found)} - found:
        found |= more
    return found


def _shows(expression: Expression, secret: set[str]) -> bool:
    """Returns whether the value of an expression contains that of a secret."""
    match expression:
        case Name(name=name):
            return name in secret
        case Call(function=function, of=None) if function in _SAY_NO_MORE:
            return False
        case Operation(operator=operator, operands=operands) if operator == "?":
            return any(_shows(each, secret) for each in operands[1:])
        case Operation(operator=operator) if operator in ("==", "!=", "!", "&&", "||", "=~", "!~"):
            return False
    return any(_shows(child, secret) for child in expression.children)


def _passed_on(file: File, module: Declaration, target: File, secret: set[str]) -> Iterator[Finding]:
    declared = {each.name: each for each in target.of("param")}
    body = module.value.body if isinstance(module.value, Loop) else module.value
    if not isinstance(body, Object):
        return
    for key, value in body.properties:
        if key.plain != "params" or not isinstance(value, Object):
            continue
        for name, given in value.properties:
            parameter = declared.get(str(name.plain))
            if parameter is not None and parameter.decorator("secure") is None and _shows(given, secret):
                yield _finding(file, name.line, f"a secret is passed on to {parameter.name}, which is not @secure()")
