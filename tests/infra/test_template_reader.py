"""The reader of templates itself: syntax, expressions and types; test_compiled.py compares it with the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra import templates
from tools.local.templates import extract, meaning, resource_types, shapes, syntax
from tools.local.templates.deployment import deploy
from tools.local.templates.values import Deployed, Value


def _deployed(text: str, folder: Path, **given: Value) -> Deployed:
    (folder / "main.bicep").write_text(f"targetScope = 'subscription'\n{text}\n")
    return deploy(folder / "main.bicep", given)


def _value(expression: str, folder: Path, kind: str = "string", **given: Value) -> Value:
    declared = "".join(f"param {name} {_kind(value)}\n" for name, value in given.items())
    deployed = _deployed(f"{declared}output x {kind} = {expression}", folder, **given)
    assert deployed.findings == []
    return deployed.outputs["x"]


def _kind(value: Value) -> str:
    kinds = {str: "string", bool: "bool", int: "int", dict: "object", list: "array"}
    return kinds[type(value)]


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("'it\\'s ${1 + 2} \\${not} \\n'", "string", "it's 3 ${not} \n"),
        ("'''it's ${not}'''", "string", "it's ${not}"),
        ("o.a ? o.b : o.d.e", "string", "deep"),
        ("(o.c ? o.d : o.x).e", "string", "deep"),
        ("o.c && !o.a || o.a", "bool", True),
        ("1 + 2 * 3", "int", 7),
        ("7 / 2", "int", 3),
        ("o.missing", "string", None),
        ("join(map(filter(l, e => e > 1), e => string(e)), '-')", "string", "2-3"),
        ("[for (e, i) in l: e * i]", "array", [0, 2, 6]),
        ("[for e in l: if (e > 1) { name: 'n${e}' }]", "array", [{"name": "n2"}, {"name": "n3"}]),
        ("union({ a: { b: 1 } }, { a: { c: 2 } })", "object", {"a": {"b": 1, "c": 2}}),
        ("cidrSubnet('10.1.0.0/16', 27, 4)", "string", "10.1.0.128/27"),
        ("replace(toLower('A/B'), '/', '~')", "string", "a~b"),
        ("empty('') && empty([]) && empty({}) && empty(null)", "bool", True),
        ("null ?? 'else'", "string", "else"),
        ("length(uniqueString('a'))", "int", 13),
        ("uniqueString('a') == uniqueString('b')", "bool", False),
    ],
)
def test_expressions(expression: str, kind: str, value: Value, tmp_path: Path) -> None:
    given = {"o": {"a": False, "b": "shallow", "c": True, "d": {"e": "deep"}, "x": {}}, "l": [1, 2, 3]}
    declared = "param o object\nparam l array\n"
    deployed = _deployed(f"{declared}output x {kind} = {expression}", tmp_path, **given)
    if value is None:
        assert [each.text for each in deployed.findings] == ["there is no missing, only a, b, c, d, x"]
    else:
        assert deployed.findings == []
        assert deployed.outputs["x"] == value


def test_a_part_that_is_not_chosen_is_not_evaluated(tmp_path: Path) -> None:
    assert _value("on ? 'yes' : o.missing", tmp_path, on=True, o={}) == "yes"


@pytest.mark.parametrize(
    "text",
    ["param x", "output x string = ", "resource a 'T@1' = {", "import 'x'", "var a = 1\nvar a = 2", "var a = {b c}"],
)
def test_what_cannot_be_read_is_a_fault_with_its_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.bicep").write_text(f"// first line\n{text}\n")
    with pytest.raises(syntax.SyntaxFault, match=r"x\.bicep:[23]: "):
        syntax.read(tmp_path / "x.bicep")


def test_what_only_azure_knows_goes_unchecked_and_is_listed(tmp_path: Path) -> None:
    group = "resource g 'Microsoft.Resources/resourceGroups@2025-04-01' = {\n  name: 'g'\n  location: 'x'\n"
    tagged = f"{group}  tags: {{ t: h.properties.provisioningState }}\n}}\n"
    other = group.replace("resource g", "resource h").replace("'g'", "'h'") + "}"
    deployed = _deployed(tagged + other, tmp_path)
    assert deployed.findings == []
    assert [line.partition(" ")[2] for line in meaning.unknowns(deployed)] == [
        "Microsoft.Resources/resourceGroups tags.t: h.properties.provisioningState"
    ]


def test_what_only_azure_knows_has_a_type(tmp_path: Path) -> None:
    group = "resource g 'Microsoft.Resources/resourceGroups@2025-04-01' = {\n  name: 'g'\n  location: h.properties\n}\n"
    other = "resource h 'Microsoft.Resources/resourceGroups@2025-04-01' = {\n  name: 'h'\n  location: 'x'\n}"
    (finding,) = _deployed(group + other, tmp_path).findings
    assert finding.text == "resourceGroups location is string, but gets something else"


def test_the_types_are_those_of_the_templates() -> None:
    document = shapes.document()
    assert extract.in_templates(templates.INFRA) <= document["used"].keys()
    assert document["source"].startswith("Azure/bicep-types-az@")
    notice = (shapes.FILE.parent / "NOTICE").read_text()
    assert "MIT License" in notice
    for name in document["used"]:
        resource_type, _, version = name.partition("@")
        assert version in document["versions"][resource_type]
        shape = resource_types.find(resource_type, version)
        assert isinstance(shape, shapes.Shape)
        assert "name" in shape.properties()
