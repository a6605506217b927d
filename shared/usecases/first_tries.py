"""Whether it is worth while to commit on what this process has committed last, without a read (design 2.8)."""

from __future__ import annotations

_WEIGHT = 1 / 16
"""Of the latest one among all first tries: the last few dozen decide."""
_ENOUGH = 0.75
"""A first try that fails costs up to three requests, and one that succeeds saves one."""


class FirstTries:
    """The share of tasks that nobody else has committed since this process did.

    It is high while one process serves a task's worker from the claim on, and low where many processes share the calls.
    """

    def __init__(self) -> None:
        self._share = 1.0

    @property
    def are_worth_it(self) -> bool:
        """Whether enough of the latest have succeeded, or would have."""
        return self._share >= _ENOUGH

    def note(self, *, succeeds: bool) -> None:
        """Notes how a first try ended, or what a read shows: how it would have ended."""
        self._share += (succeeds - self._share) * _WEIGHT
