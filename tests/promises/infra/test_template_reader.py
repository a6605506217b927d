"""The reader of templates itself: syntax and types; test_compiled.py compares its expressions with the compiler's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.infra import templates
from tools.local.templates import extract, resource_types, shapes, syntax


@pytest.mark.parametrize(
    "text",
    ["param x", "output x string = ", "resource a 'T@1' = {", "import 'x'", "var a = 1\nvar a = 2", "var a = {b c}"],
)
def test_what_cannot_be_read_is_a_fault_with_its_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.bicep").write_text(f"// first line\n{text}\n")
    with pytest.raises(syntax.SyntaxFault, match=r"x\.bicep:[23]: "):
        syntax.read(tmp_path / "x.bicep")


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
