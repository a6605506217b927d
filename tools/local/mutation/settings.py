"""What is mutated and by which tests it is tried: `[tool.mutation]` in pyproject.toml."""

import fnmatch
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`mutate`: patterns of files. `leave`: lines that are not mutated. `tests`: files and folders of tests that run
    the code in their own process. `options`: options of pytest. `hosts`: by files, tests that run these files in other
    processes."""

    mutate: Sequence[str]
    leave: Sequence[str]
    tests: Sequence[str]
    options: Sequence[str]
    hosts: Mapping[str, Sequence[str]]

    @classmethod
    def load(cls, root: Path) -> "Settings":
        """Raises KeyError for a project without them."""
        content = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mutation"]
        return cls(
            mutate=content["mutate"],
            leave=content.get("leave", ()),
            tests=content["tests"],
            options=content.get("options", ()),
            hosts=content.get("hosts", {}),
        )

    def with_tests(self, tests: Sequence[str]) -> "Settings":
        """These settings with other tests, if some are given."""
        return replace(self, tests=tests, hosts={}) if tests else self

    def sources(self, root: Path, functions: Sequence[str] = ()) -> list[Path]:
        """The files to mutate, relative to the root: all, or those that may have functions of these patterns."""
        found = sorted({path.relative_to(root) for pattern in self.mutate for path in root.glob(pattern)})
        starts = [re.split(r"[*?\[]", pattern)[0] for pattern in functions]
        return [path for path in found if not starts or any(_may_begin(path, start) for start in starts)]

    def in_hosts(self, path: Path) -> list[str]:
        """Tests that start processes which run this file."""
        patterns = [pattern for pattern in self.hosts if fnmatch.fnmatch(str(path), pattern)]
        return [test for pattern in patterns for test in self.hosts[pattern]]


def _may_begin(path: Path, start: str) -> bool:
    module = ".".join((*path.with_suffix("").parts, ""))
    return module.startswith(start) or start.startswith(module)
