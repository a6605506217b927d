"""Writes docs/modules.md, what each module of the app and each file of tests is about: `python -m local.module_map`.

A test fails when the document differs from what this writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from local.state import ROOT

DOCUMENT = ROOT / "docs" / "modules.md"
_HEAD = """# Modules and tests

Written by `python -m local.module_map`: the first sentences of each Python module, then of each file of tests. To
find where something is decided, or what asserts it, search this page for Taskcluster's word for it, or for the section
of the contract or the design. The decisions that are asked for most have a table of their own, with their tests, in
[CONTRIBUTING.md](../CONTRIBUTING.md#where-it-is-decided).
"""


def document() -> str:
    """The whole document."""
    folders = ("functions", "shared", "worker", "admin", "listen", "local", "bench")
    files = [path for folder in folders for path in _files(folder, "*.py")] + _files("tests", "test_*.py")
    return _HEAD + "".join(_sections(files))


def _files(folder: str, pattern: str) -> list[Path]:
    found = [path.relative_to(ROOT) for path in (ROOT / folder).rglob(pattern) if path.name != "__init__.py"]
    return sorted(found, key=lambda path: (path.parent.parts, path.stem))


def _sections(files: list[Path]) -> Iterator[str]:
    for folder, inside in groupby(files, key=lambda path: path.parent):
        yield f"\n## {folder.as_posix()}\n\n| File | About |\n|---|---|\n"
        for path in inside:
            yield f"| `{path.name}` | {_about(path)} |\n"


def _about(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text()))
    assert docstring is not None, f"{path} does not say what it is about"
    return " ".join(docstring.partition("\n\n")[0].split()).replace("|", "\\|")


def main() -> None:
    """Write the document."""
    DOCUMENT.write_text(document())


if __name__ == "__main__":
    main()
