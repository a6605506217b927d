"""How long a queue listener waits before it looks again."""

from collections.abc import Callable

MINIMUM_SECONDS = 0.1
_SPREAD = 0.2


class Backoff:
    """Platform's randomised exponential back-off: the minimum after something was found, then doubling (±20 %)."""

    def __init__(self, maximum: float, jitter: Callable[[], float], *, minimum: float = MINIMUM_SECONDS) -> None:
        """Takes the shortest and the longest wait in seconds; `jitter` gives numbers in [0, 1)."""
        self._minimum = minimum
        self._maximum = maximum
        self._jitter = jitter
        self._exponent = 0

    def next_delay(self, *, found: bool) -> float:
        """Returns the seconds to wait now, knowing whether a message was found since the last wait."""
        if found or self._exponent == 0:
            self._exponent = 1
            return self._minimum
        factor = 1 - _SPREAD + 2 * _SPREAD * self._jitter()
        delay = self._minimum + self._minimum * factor * 2.0 ** (self._exponent - 1)
        if delay >= self._maximum:
            return self._maximum
        self._exponent += 1
        return delay
