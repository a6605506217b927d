"""Evaluates what a template deploys: checks its parameters, and evaluates symbols as they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.local.templates import parameters, resource_types, syntax
from tools.local.templates.evaluation import Evaluator
from tools.local.templates.expressions import Declaration, Expression, File, Loop, Object
from tools.local.templates.shapes import Shape
from tools.local.templates.values import (
    NOWHERE,
    Deployed,
    Finding,
    ModuleReference,
    Place,
    Reference,
    Resource,
    Value,
    is_late,
)

SCOPES = {"tenant": 1, "managementGroup": 2, "subscription": 4, "resourceGroup": 8}
EXTENSION = 16


class Template(Evaluator):
    """Evaluates one file with its parameters."""

    def __init__(self, file: File, given: Mapping[str, Value], deployed: Deployed) -> None:
        super().__init__(file, deployed.group, deployed.where)
        self.deployed = deployed
        self.given = dict(given)
        self._done: dict[str, Value] = {}
        self._stack: list[set[str]] = [set()]
        self._under_way: list[str] = []

    def run(self) -> Deployed:
        """Evaluates everything. Findings are collected, and the declarations that they are about are left out."""
        for problem in parameters.problems(self.file, self.given, self.deployed.name):
            self.deployed.findings.append(problem)
        for declaration in self.file.declarations.values():
            self._attempt(declaration.name)
        for output in self.file.of("output"):
            try:
                assert output.value is not None
                value = self.value(output.value, {})
                parameters.refuse_other_type(output.target, value, f"output {output.name}", self.place(output))
                self.deployed.outputs[output.name] = value
            except Finding as finding:
                self._record(finding)
        self.deployed.keys_read += self.keys_read
        return self.deployed

    def _attempt(self, name: str) -> None:
        try:
            self.symbol(name, 0)
        except Finding as finding:
            self._record(finding)

    def _record(self, finding: Finding) -> None:
        if str(finding) not in map(str, self.deployed.findings):
            self.deployed.findings.append(finding)

    def symbol(self, name: str, line: int) -> Value:
        """Returns the value of a declared symbol, evaluated on its first use."""
        declaration = self.file.declarations.get(name)
        if declaration is None:
            raise Finding(f"{self.file.path.name}:{line}", f"there is no {name}")
        if name not in self._done:
            if name in self._under_way:
                raise Finding(self.place(declaration), f"{name} depends on itself")
            self._under_way.append(name)
            self._stack.append(set())
            try:
                self._done[name] = self._declared(declaration)
            finally:
                self.deployed.needs[name] = self._stack.pop()
                self._under_way.pop()
        self._stack[-1].add(name)
        return self._done[name]

    def _declared(self, declaration: Declaration) -> Value:
        match declaration.kind:
            case "param":
                if declaration.name in self.given:
                    return parameters.settled(self.given[declaration.name])
                return None if declaration.value is None else self.value(declaration.value, {})
            case "resource":
                return self._resources(declaration)
            case "module":
                return self._module(declaration)
        assert declaration.value is not None
        return self.value(declaration.value, {})

    # Resources

    def _resources(self, declaration: Declaration) -> Value:
        body, condition = declaration.value, True
        assert body is not None
        if declaration.condition is not None:
            condition = self._early(self.value(declaration.condition, {}), declaration, "the condition")
        if not isinstance(body, Loop):
            return Reference(self._resource(declaration, self._body(body, condition), condition))
        self._early(self.value(body.source, {}), declaration, "what is looped over")
        return [
            Reference(self._resource(declaration, self.value(body.body, each), True)) for each in self.rounds(body, {})
        ]

    def _body(self, body: Expression, condition: bool) -> dict[str, Value]:
        """Returns the values of a body; for a resource that is not deployed, only name, parent and scope."""
        if condition:
            return dict(self.value(body, {}))
        assert isinstance(body, Object)
        return {
            str(key.plain): self.value(value, {})
            for key, value in body.properties
            if key.plain in ("name", "parent", "scope")
        }

    def _early(self, value: Value, declaration: Declaration, what: str) -> Value:
        if is_late(value):
            raise Finding(self.place(declaration), f"{what} has to be known before the deployment begins")
        return value

    def _resource(self, declaration: Declaration, body: dict[str, Value], condition: bool) -> Resource:
        place = self.place(declaration)
        resource_type, _, version = declaration.target.partition("@")
        shape = resource_types.find(resource_type, version)
        if isinstance(shape, str):
            raise Finding(place, f"{declaration.target}: {shape}")
        parent, scope = body.pop("parent", None), body.pop("scope", None)
        body.pop("dependsOn", None)
        name = self._early(body.get("name"), declaration, "a resource's name")
        if not isinstance(name, str):
            raise Finding(place, "a resource needs a name")
        if parent is not None:
            name = f"{self._parent(parent, resource_type, place).name}/{name}"
        if resource_type.count("/") != name.count("/") + 1:
            raise Finding(place, f"{name!r} does not have the segments of {resource_type}: it needs a parent")
        made = Resource(
            symbol=declaration.name,
            type=resource_type,
            version=version,
            name=name,
            id=self._id(resource_type, name, scope, shape, place),
            body=body,
            place=place,
            existing=declaration.existing,
            deployed=condition,
            within=self.deployed,
            shape=shape,
        )
        self.deployed.resources.append(made)
        if condition and not made.existing:
            for problem in resource_types.check(body, shape):
                if not problem.startswith(f"{resource_types.AHEAD.get(resource_type.lower())} is unknown"):
                    self._record(Finding(place, f"{resource_type.rpartition('/')[2]} {problem}"))
        return made

    def _parent(self, parent: Value, resource_type: str, place: str) -> Resource:
        wanted = resource_type.rpartition("/")[0]
        if not isinstance(parent, Reference) or parent.path:
            raise Finding(place, "a parent has to be a resource")
        if parent.resource.type.lower() != wanted.lower():
            raise Finding(place, f"{parent.resource.type} cannot be the parent of {resource_type}")
        return parent.resource

    def _id(self, resource_type: str, name: str, scope: Value, shape: Shape, place: str) -> str:
        base = f"/subscriptions/{self.where[0]}"
        scopes = int(shape.raw["writableScopes"])
        if resource_type.lower() == "microsoft.resources/resourcegroups":
            return f"{base}/resourceGroups/{name}"
        if self.deployed.group is not None:
            base += f"/resourceGroups/{self.deployed.group}"
        allowed = scopes & SCOPES[self.file.scope]
        if isinstance(scope, Reference):
            base, allowed = scope.resource.id, scopes & EXTENSION
        if not allowed:
            raise Finding(place, f"{resource_type} cannot be deployed at this scope")
        provider, *words = resource_type.split("/")
        return f"{base}/providers/{provider}" + "".join(
            f"/{word}/{part}" for word, part in zip(words, name.split("/"), strict=True)
        )

    # Modules

    def _module(self, declaration: Declaration) -> Value:
        place = self.place(declaration)
        if declaration.condition is not None:
            condition = self._early(self.value(declaration.condition, {}), declaration, "the condition")
            if not condition:
                return ModuleReference(None, declaration.name, place)
        assert declaration.value is not None
        if not isinstance(declaration.value, Loop):
            return self._round(declaration, declaration.name, self.value(declaration.value, {}))
        loop = declaration.value
        self._early(self.value(loop.source, {}), declaration, "what is looped over")
        bodies = [self.value(loop.body, each) for each in self.rounds(loop, {})]
        return [self._round(declaration, f"{declaration.name}[{index}]", body) for index, body in enumerate(bodies)]

    def _round(self, declaration: Declaration, symbol: str, body: dict[str, Value]) -> ModuleReference:
        """Evaluates one deployment of a module. `symbol` is unique, even if the module is deployed in a loop."""
        place = self.place(declaration)
        for word in body.keys() - {"name", "scope", "params", "dependsOn"}:
            raise Finding(place, f"a module has no {word}")
        path = (self.file.path.parent / declaration.target).resolve()
        if not path.exists():
            raise Finding(place, f"there is no file {declaration.target}")
        scope, group = body.get("scope"), self.deployed.group
        if isinstance(scope, Reference):
            if scope.resource.type.lower() != "microsoft.resources/resourcegroups":
                raise Finding(place, "a module's scope has to be a resource group")
            group = scope.resource.name
        file = syntax.read(path)
        if file.scope == "resourceGroup" and group is None:
            raise Finding(place, "this module needs a resource group as its scope")
        inner = Deployed(file, str(body.get("name")), group, self.deployed, declaration.name, where=self.where)
        self.deployed.modules[symbol] = inner
        given = {name: value for name, value in (body.get("params") or {}).items() if value is not None}
        inner.given = given
        for name, value in given.items():
            if isinstance(value, Reference):
                raise Finding(place, f"the parameter {name} cannot be a resource")
        Template(file, given, inner).run()
        return ModuleReference(inner, symbol, place)


def deploy(main: Path, given: Mapping[str, Value], where: Place = NOWHERE) -> Deployed:
    """Evaluates a subscription's deployment of main.bicep. Raises SyntaxFault."""
    file = syntax.read(main)
    return Template(file, given, Deployed(file, "main", None, where=where)).run()
