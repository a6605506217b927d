"""Copies of the checkout in which mutants are tried, so that every process that a test starts runs the mutant."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.local.checks import clean_environment
from tools.local.mutation.mutants import Mutant
from tools.local.state import ROOT

FOLDER = Path(".local/mutation")
LINKED = (".venv", "tools/node_modules")
LEFT = (".git", ".local", ".venv-*", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".dmypy.json")
NEWER = 100_000
"""Seconds by which a mutated file is made newer, so that Python does not use what it has compiled of the original."""


class Copy:
    """One copy. What is compiled in it is kept for the next run."""

    def __init__(self, root: Path, number: int) -> None:
        self.path = root / FOLDER / f"copy-{number}"
        self._root = root

    def refresh(self) -> None:
        """Make it as the checkout is now."""
        ignored = shutil.ignore_patterns(*(Path(name).name for name in LINKED), *LEFT, "__pycache__")
        for entry in self.path.iterdir() if self.path.exists() else ():
            if entry.is_symlink() or entry.is_file():
                entry.unlink()
            elif entry.name != ".local":
                _remove_sources(entry)
        shutil.copytree(self._root, self.path, ignore=ignored, dirs_exist_ok=True, symlinks=True)
        for name in LINKED:
            if (self._root / name).exists():
                (self.path / name).symlink_to((self._root / name).resolve())

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """With the mutant in its file."""
        file = self.path / mutant.path
        original, times = file.read_text(), file.stat()
        try:
            file.write_text(mutant.source)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + NEWER * 10**9))
            yield
        finally:
            file.write_text(original)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def start_pytest(self, arguments: Sequence[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
        """pytest in this copy, in a process group of its own."""
        kept = {name: value for name, value in clean_environment().items() if not name.startswith("PYTEST_")}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.path,
            env=kept | {"PYTHONPATH": str(ROOT)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def _remove_sources(folder: Path) -> None:
    """Remove all but what Python has compiled."""
    for parent, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = Path(parent, name)
            if path.is_symlink() or (path.is_file() and path.suffix != ".pyc"):
                path.unlink()
