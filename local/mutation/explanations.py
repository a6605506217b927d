"""The file of survivors that are understood: why no quick test can, or should, tell the mutant from the program."""

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local.mutation.mutants import Mutant


@dataclass(frozen=True)
class Explanations:
    """`survivors`: a reason for each mutant. `elsewhere`: functions that only tests with a server reach, and why."""

    survivors: Mapping[tuple[str, str], str]
    elsewhere: Sequence[tuple[str, str]]

    @classmethod
    def load(cls, path: Path) -> "Explanations":
        """Raises ValueError for an entry without its words, and for two entries of one mutant."""
        content = tomllib.loads(path.read_text()) if path.exists() else {}
        survivors: dict[tuple[str, str], str] = {}
        for entry in content.get("survivor", ()):
            lines = (line.strip() for line in _words(entry, "change").splitlines())
            key = _words(entry, "function"), "\n".join(line for line in lines if line)
            if key in survivors:
                raise ValueError(f"two entries for one mutant of {key[0]}:\n{key[1]}")
            survivors[key] = _words(entry, "why")
        elsewhere = [(_words(entry, "functions"), _words(entry, "why")) for entry in content.get("elsewhere", ())]
        return cls(survivors, elsewhere)

    def reason(self, mutant: Mutant) -> str | None:
        """Why this mutant may survive; None if it is not explained."""
        return self.survivors.get(mutant.key)

    def is_tested_elsewhere(self, mutant: Mutant) -> bool:
        """True if no quick test reaches the function, and the file says that another suite does."""
        return mutant.status == "no tests" and any(
            fnmatch.fnmatchcase(mutant.function, functions) for functions, _ in self.elsewhere
        )

    def stale(self, mutants: Iterable[Mutant]) -> list[str]:
        """Entries that fit no mutant: the code has changed since."""
        known = list(mutants)
        keys, names = {mutant.key for mutant in known}, {mutant.function for mutant in known}
        gone = [f"{function}\n{change}" for function, change in self.survivors if (function, change) not in keys]
        return gone + [functions for functions, _ in self.elsewhere if not fnmatch.filter(names, functions)]


def _words(entry: Mapping[str, object], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"an entry lacks `{name}`: {dict(entry)}")
    return value.strip()
