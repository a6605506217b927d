"""`./dev mutate`: change the code in small ways, and see whether the quick tests notice."""

import fcntl
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.local.mutation.copies import FOLDER, Copy
from tools.local.mutation.explanations import Explanations
from tools.local.mutation.mutants import Mutant, build, choose, spots
from tools.local.mutation.reached import TestsFail, reach_of
from tools.local.mutation.settings import Settings
from tools.local.mutation.trials import Fate, Killed, try_all
from tools.local.mutation.type_check import refused_by_mypy
from tools.local.state import ROOT

EXPLAINED = ROOT / "tests/mutation/survivors.toml"
ENOUGH = 0.95
"""The part of the mutants that must be killed."""
LARGE_ENOUGH = 100
"""The part is required of samples of at least this size: in a smaller one, a single mutant that no test can kill would
decide."""
INTERRUPTED = 130


class MutationError(Exception):
    """The mutants could not be tried; the message says why."""


@dataclass
class Judgement:
    """What became of a sample."""

    killed: list[Mutant] = field(default_factory=list)
    explained: list[Mutant] = field(default_factory=list)
    unexplained: list[tuple[Mutant, Fate]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many mutants there were."""
        return len(self.killed) + len(self.explained) + len(self.unexplained)

    @property
    def score(self) -> float:
        """The part that was killed. Survivors count whether explained or not."""
        return len(self.killed) / self.tried if self.tried else 1.0

    @property
    def is_good(self) -> bool:
        """Enough are killed, every survivor is explained, and every explanation is of a mutant."""
        return (self.score >= ENOUGH or self.tried < LARGE_ENOUGH) and not (self.unexplained or self.stale)


def judge(
    sample: Sequence[Mutant],
    fates: Mapping[Mutant, Fate],
    explanations: Explanations,
    refused: set[tuple[str, str]],
) -> Judgement:
    """Sort the sample by what became of it; `refused` are the keys of those that the type check refuses."""
    result = Judgement()
    for mutant in sample:
        fate = fates[mutant]
        if fate is Fate.KILLED or mutant.key in refused:
            result.killed.append(mutant)
        elif explanations.reason(mutant) is not None:
            result.explained.append(mutant)
        else:
            result.unexplained.append((mutant, fate))
    return result


def main(
    patterns: Sequence[str],
    *,
    size: int | None,
    seed: int | None,
    again: bool = False,
    children: int | None = None,
    tests: Sequence[str] = (),
    root: Path = ROOT,
    explained: Path = EXPLAINED,
) -> int:
    """Try a sample of the mutants, and print what survived. 0 if the tests are good enough: all, or those given.

    Mutants that were killed before, and those whose survival is explained, are not tried once more, unless `again` or
    their function has changed.
    """
    seed = random.randrange(1_000_000) if seed is None else seed  # noqa: S311 - no secret
    try:
        settings, explanations = Settings.load(root).with_tests(tests), Explanations.load(explained)
        with _alone(root):
            found = spots(root, settings.sources(root, patterns), settings.leave)
            sample = build(root, choose(found, patterns, size, seed), settings.leave)
            print(f"{len(sample)} of {len(found)} mutants, chosen with --seed {seed}", flush=True)
            fates = _try(root, settings, sample, Explanations({}) if again else explanations, again, children)
            alive = [one for one in sample if fates[one] is not Fate.KILLED and explanations.reason(one) is None]
            judgement = judge(sample, fates, explanations, refused_by_mypy(root, alive))
            judgement.stale = explanations.stale(_named(root, settings, explanations))
    except (MutationError, TestsFail, RuntimeError, ValueError) as error:
        print(f"./dev mutate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    report(judgement, explanations)
    return 0 if judgement.is_good else 1


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    with (root / FOLDER / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MutationError(f"another run is using {root / FOLDER}") from None
        yield


def _try(
    root: Path, settings: Settings, sample: Sequence[Mutant], explained: Explanations, again: bool, children: int | None
) -> dict[Mutant, Fate]:
    killed = Killed(root)
    fates = {
        mutant: Fate.KILLED if mutant in killed else Fate.SURVIVED
        for mutant in sample
        if (mutant in killed and not again) or explained.reason(mutant) is not None
    }
    rest = [mutant for mutant in sample if mutant not in fates]
    if not rest:
        return fates
    copies = [Copy(root, number) for number in range(children or os.cpu_count() or 1)]
    for copy in copies:
        copy.refresh()
    reached = reach_of(root, settings, copies[0], len(copies))

    def told(mutant: Mutant, fate: Fate) -> None:
        fates[mutant] = fate
        if fate is Fate.KILLED:
            killed.add(mutant)
        print(f"{len(fates)} of {len(sample)}: {mutant.function}: {fate.value}", flush=True)

    try_all(rest, copies, reached, settings, told)
    return fates


def _named(root: Path, settings: Settings, explanations: Explanations) -> list[Mutant]:
    """All mutants of the functions that the file of explanations names."""
    functions = sorted({function for function, _ in explanations.survivors})
    if not functions:
        return []
    found = spots(root, settings.sources(root, functions), settings.leave)
    return build(root, choose(found, functions, None, seed=0), settings.leave)


def report(judgement: Judgement, explanations: Explanations) -> None:
    """Print the survivors and the figures. Survivors without an explanation come last, each as an entry to complete in
    the file."""
    for mutant in judgement.explained:
        print(f"\n{mutant.function} (explained: {explanations.reason(mutant)})\n{mutant.change}")
    for mutant, fate in judgement.unexplained:
        print(f"\n# {mutant.path}: {fate.value}\n[[survivor]]\nfunction = '{mutant.function}'")
        print(f"change = '''\n{mutant.change}\n'''\nwhy = ''")
    for entry in judgement.stale:
        print(f"\nexplained, but there is no such mutant any more:\n{entry}")
    print(f"\n{len(judgement.killed)} of {judgement.tried} killed ({judgement.score:.1%}; {ENOUGH:.0%} are wanted)")
    alive = [*judgement.explained, *(mutant for mutant, _ in judgement.unexplained)]
    survivors = Counter(str(mutant.path) for mutant in alive)
    print(f"{survivors.total()} survived, {len(judgement.unexplained)} of them unexplained")
    for path, count in survivors.most_common():
        print(f"    {count:4} {path}")
