"""`./dev mutate`: change the code in small ways, and see whether the quick tests notice."""

import fcntl
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from local.checks import clean_environment
from local.mutation import generate
from local.mutation.explanations import Explanations
from local.mutation.mutants import FOLDER, KILLED, NOT_KILLED, Mutant, choose, forget_removed, read_mutants
from local.mutation.type_check import refused_by_mypy
from local.state import ROOT

EXPLAINED = ROOT / "tests/mutation/survivors.toml"
ENOUGH = 0.95
"""The part of the mutants that must be killed."""
NAMES_AT_ONCE = 2000
"""How many mutants are named in one command line."""
INTERRUPTED = 130


class MutationError(Exception):
    """The mutants could not be run; the message says why."""


@dataclass
class Judgement:
    """What became of a sample."""

    killed: list[Mutant] = field(default_factory=list)
    explained: list[Mutant] = field(default_factory=list)
    unexplained: list[Mutant] = field(default_factory=list)
    elsewhere: list[Mutant] = field(default_factory=list)
    not_run: list[Mutant] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The part that was killed. Survivors count whether explained or not; what is tested elsewhere does not."""
        tried = len(self.killed) + len(self.explained) + len(self.unexplained)
        return len(self.killed) / tried if tried else 1.0

    @property
    def is_good(self) -> bool:
        """Enough are killed, every survivor is explained, and every explanation is of a mutant."""
        return self.score >= ENOUGH and not (self.unexplained or self.not_run or self.stale)


def judge(
    sample: Sequence[Mutant], everything: Sequence[Mutant], explanations: Explanations, refused: set[str]
) -> Judgement:
    """Sort the sample by what became of it; `refused` are the names of those that the type check refuses."""
    result = Judgement(stale=explanations.stale(everything))
    for mutant in sample:
        if mutant.status in KILLED or mutant.name in refused:
            result.killed.append(mutant)
        elif mutant.status not in NOT_KILLED:
            result.not_run.append(mutant)
        elif explanations.is_tested_elsewhere(mutant):
            result.elsewhere.append(mutant)
        elif explanations.reason(mutant) is not None:
            result.explained.append(mutant)
        else:
            result.unexplained.append(mutant)
    return result


def main(
    patterns: Sequence[str],
    *,
    size: int | None,
    seed: int | None,
    again: bool = False,
    children: int | None = None,
    root: Path = ROOT,
    explained: Path = EXPLAINED,
) -> int:
    """Make the mutants, run a sample of them, and print what survived. 0 if the tests are good enough.

    Mutants that were killed before are not run once more, unless `again` or their function has changed.
    """
    seed = random.randrange(1_000_000) if seed is None else seed  # noqa: S311 - no secret
    try:
        explanations = Explanations.load(explained)
        with _alone(root):
            forget_removed(root)
            _tool(root, [sys.executable, "-P", str(generate.__file__)])
            sample = choose(read_mutants(root), patterns, size, seed)
            print(f"{len(sample)} mutants, chosen with --seed {seed}", flush=True)
            _run(root, [one for one in sample if again or one.status not in KILLED], children)
            # Where tests or settings have changed, mutmut forgets results as it begins to run.
            forgotten = choose(read_mutants(root), patterns, size, seed)
            _run(root, [one for one in forgotten if one.status not in KILLED | NOT_KILLED], children)
            everything = read_mutants(root)
            sample = choose(everything, patterns, size, seed)
            alive = [mutant for mutant in sample if mutant.status in NOT_KILLED]
            judgement = judge(sample, everything, explanations, refused_by_mypy(root, alive))
    except (MutationError, RuntimeError, ValueError) as error:
        print(f"./dev mutate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    report(judgement, explanations)
    return 0 if judgement.is_good else 1


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    (root / FOLDER).mkdir(exist_ok=True)
    with (root / FOLDER / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MutationError(f"another run is using {root / FOLDER}") from None
        yield


def _run(root: Path, mutants: Sequence[Mutant], children: int | None) -> None:
    names = [mutant.name for mutant in mutants]
    for start in range(0, len(names), NAMES_AT_ONCE):
        options = ["--max-children", str(children)] if children else []
        some = names[start : start + NAMES_AT_ONCE]
        _tool(root, [sys.executable, "-m", "mutmut", "run", *options, *some])


def _tool(root: Path, command: Sequence[str]) -> None:
    """Run a part of mutmut; on a terminal with its progress, elsewhere with its output in `mutants/mutmut.log`."""
    environment = {name: value for name, value in clean_environment().items() if not name.startswith("PYTEST_")}
    log = root / FOLDER / "mutmut.log"
    with log.open("w") as file:
        output = None if os.isatty(1) else file
        done = subprocess.run(
            command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT if output else None, check=False
        )
    if done.returncode != 0:
        raise MutationError(f"mutmut ended with exit code {done.returncode}\n{log.read_text()[-4000:]}")


def report(judgement: Judgement, explanations: Explanations) -> None:
    """Print the survivors, those without an explanation last and as an entry for the file, and the figures."""
    for mutant in judgement.explained:
        print(f"\n{mutant.function} (explained: {explanations.reason(mutant)})\n{mutant.change}")
    for mutant in judgement.unexplained:
        print(f"\n# {mutant.path}: {mutant.status}\n[[survivor]]\nfunction = '{mutant.function}'")
        print(f"change = '''\n{mutant.change}\n'''\nwhy = ''")
    for entry in judgement.stale:
        print(f"\nexplained, but there is no such mutant any more:\n{entry}")
    print(f"\n{len(judgement.killed)} killed ({judgement.score:.1%}; at least {ENOUGH:.0%} are wanted)")
    survivors = Counter(str(one.path) for one in (*judgement.explained, *judgement.unexplained))
    print(f"{survivors.total()} survived, {len(judgement.unexplained)} of them unexplained")
    for path, count in survivors.most_common():
        print(f"    {count:4} {path}")
    print(f"{len(judgement.elsewhere)} are of functions that only tests with a server reach")
    if judgement.not_run:
        print(f"{len(judgement.not_run)} have not been run")
