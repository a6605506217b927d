"""Ask mypy about mutants that the tests let live: a mutant that it refuses would not pass `./dev test`."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from tools.local.mutation.copies import FOLDER
from tools.local.mutation.mutants import Mutant


def refused_by_mypy(root: Path, mutants: Sequence[Mutant]) -> set[tuple[str, str]]:
    """The keys of those in which mypy finds an error. One run looks at one mutant of each file."""
    files: dict[Path, list[Mutant]] = {}
    for mutant in mutants:
        files.setdefault(mutant.path, []).append(mutant)
    refused: set[tuple[str, str]] = set()
    for group in zip_longest(*files.values()):
        refused |= _look(root, [mutant for mutant in group if mutant is not None])
    return refused


def _look(root: Path, mutants: Sequence[Mutant]) -> set[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        shadows: list[str] = []
        for number, mutant in enumerate(mutants):
            shadow = Path(folder, f"{number}.py")
            shadow.write_text(mutant.source)
            shadows += ["--shadow-file", str(mutant.path), str(shadow)]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context"),
                *("--cache-dir", str(root / FOLDER / ".mypy_cache"), *shadows),
                *(str(mutant.path) for mutant in mutants),
            ],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"mypy failed:\n{done.stdout}{done.stderr}")
    wrong = {line.partition(":")[0] for line in done.stdout.splitlines() if ": error:" in line}
    return {mutant.key for mutant in mutants if str(mutant.path) in wrong}
