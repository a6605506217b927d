"""Symbols of the files: each that is used exists, each that is declared is used. Nothing is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.local.templates import functions, syntax
from tools.local.templates.expressions import (
    Call,
    Declaration,
    Expression,
    File,
    Lambda,
    Loop,
    Member,
    Name,
    Object,
    Text,
    walk,
)
from tools.local.templates.values import Finding

DECORATORS = {
    "allowed",
    "description",
    "export",
    "maxLength",
    "maxValue",
    "metadata",
    "minLength",
    "minValue",
    "secure",
}


def problems(main: Path) -> Iterator[Finding]:
    """What is wrong with the names in main.bicep and all modules below its folder. Raises SyntaxFault."""
    files = {path.resolve(): syntax.read(path) for path in sorted(main.parent.rglob("*.bicep"))}
    used = {main.resolve()}
    for file in files.values():
        yield from _of_file(file)
        outputs = list(_outputs(file))
        for module in file.of("module"):
            target = (file.path.parent / module.target).resolve()
            used.add(target)
            if target not in files:
                yield _finding(file, module.line, f"there is no file {module.target}")
            else:
                yield from _of_module(file, module, files[target], outputs)
    for path in files.keys() - used:
        yield Finding(path.name, "no template uses this module")


def _finding(file: File, line: int, text: str) -> Finding:
    return Finding(f"{file.path.name}:{line}", text)


def _expressions(file: File) -> Iterator[tuple[Declaration, Expression]]:
    for declaration in (*file.declarations.values(), *file.outputs.values()):
        for expression in (declaration.condition, declaration.value):
            if expression is not None:
                yield declaration, expression


def _of_file(file: File) -> Iterator[Finding]:
    used: set[str] = set()
    for declaration, expression in _expressions(file):
        yield from _resolve(file, expression, frozenset(), used)
        for decorator in declaration.decorators:
            if decorator.function not in DECORATORS:
                yield _finding(file, decorator.line, f"there is no decorator {decorator.function}")
    for declaration in file.declarations.values():
        unused = declaration.kind in ("param", "var") or declaration.existing
        if unused and declaration.name not in used:
            yield _finding(file, declaration.line, f"{declaration.name} is not used")


def _resolve(file: File, expression: Expression, local: frozenset[str], used: set[str]) -> Iterator[Finding]:
    """Unknown names in an expression. Adds what it uses to `used`."""
    inner = local
    match expression:
        case Name(name=name):
            used.add(name)
            if name not in local and name not in file.declarations:
                yield _finding(file, expression.line, f"there is no {name}")
        case Call(function=function, of=None) if function not in functions.KNOWN:
            yield _finding(file, expression.line, f"there is no function {function}")
        case Loop(item=item, index=index):
            inner = local | {item} | ({index} if index else set())
            body = {each.name for each in walk(expression.body) if isinstance(each, Name)}
            if not body & {item, index}:
                yield _finding(file, expression.line, f"{item} is not used")
            elif index and index not in body:
                yield _finding(file, expression.line, f"{index} is not used")
        case Lambda(parameters=parameters):
            inner = local | set(parameters)
    for child in expression.children:
        yield from _resolve(file, child, inner, used)


def _outputs(file: File) -> Iterator[tuple[str, Text, int]]:
    """The outputs of modules that a file uses: the module, the output, and the line."""
    for _, expression in _expressions(file):
        for each in walk(expression):
            match each:
                case Member(of=Member(of=Name(name=module), index=Text(parts=("outputs",))), index=Text() as word):
                    yield module, word, each.line


def _of_module(
    file: File, module: Declaration, target: File, used: Sequence[tuple[str, Text, int]]
) -> Iterator[Finding]:
    declared = {each.name: each for each in target.of("param")}
    given = _given(module)
    for name in given.keys() - declared.keys():
        yield _finding(file, given[name], f"{target.path.name} has no parameter {name}")
    for name, parameter in declared.items():
        if name not in given and parameter.value is None and not parameter.target.endswith("?"):
            yield _finding(file, module.line, f"{target.path.name} needs the parameter {name}")
    outputs = {each.name for each in target.of("output")}
    for name, word, line in used:
        if name == module.name and word.plain not in outputs:
            yield _finding(file, line, f"{target.path.name} has no output {word.plain}")


def _given(module: Declaration) -> dict[str, int]:
    """The parameters that a module is given, and their lines."""
    body = module.value.body if isinstance(module.value, Loop) else module.value
    if isinstance(body, Object):
        for key, value in body.properties:
            if key.plain == "params" and isinstance(value, Object):
                return {str(name.plain): name.line for name, _ in value.properties}
    return {}
