"""The file of survivors that are understood: why no quick test can, or should, tell the mutant from the program."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.local.mutation.mutants import Mutant


@dataclass(frozen=True)
class Explanations:
    """`survivors`: a reason for each mutant."""

    survivors: Mapping[tuple[str, str], str]

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
        return cls(survivors)

    def reason(self, mutant: Mutant) -> str | None:
        """Why this mutant may survive; None if it is not explained."""
        return self.survivors.get(mutant.key)

    def stale(self, mutants: Iterable[Mutant]) -> list[str]:
        """Entries of mutants that do not exist any more, since the code has changed. `mutants` are all mutants of the
        functions named here."""
        keys = {mutant.key for mutant in mutants}
        return [f"{function}\n{change}" for function, change in self.survivors if (function, change) not in keys]


def _words(entry: Mapping[str, object], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"an entry lacks `{name}`: {dict(entry)}")
    return value.strip()
