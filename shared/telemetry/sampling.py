"""Chooses what is exported: traces by chance, and few spans and lines of calls without a verified name, as anybody can
send as many of these as they like."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from shared.base.shares import CURRENT, NAMELESS


class OwnChoice(Sampler):
    """Keeps a share of the traces, by chance for each span that comes from outside, whatever the caller has decided:
    anybody can send a `traceparent`, and the Functions host marks its calls as not sampled if it sends no traces
    itself."""

    def __init__(self, ratio: float, chance: Callable[[], float] = random.random) -> None:
        self._ratio = ratio
        self._chance = chance

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> OwnChoice:
        """Reads OpenTelemetry's variables; without them all traces are kept. Raises ValueError."""
        kind = variables.get("OTEL_TRACES_SAMPLER", "").removeprefix("parentbased_")
        if kind == "always_off":
            return cls(0)
        return cls(float(variables.get("OTEL_TRACES_SAMPLER_ARG") or 1) if kind == "traceidratio" else 1)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decides for the first span of a trace in this process; spans below it follow that decision."""
        parent = trace.get_current_span(parent_context).get_span_context()
        is_own = parent.is_valid and not parent.is_remote
        is_kept = parent.trace_flags.sampled if is_own else self._chance() < self._ratio
        return SamplingResult(Decision.RECORD_AND_SAMPLE if is_kept else Decision.DROP, attributes, trace_state)

    def get_description(self) -> str:
        return f"OwnChoice{{{self._ratio}}}"


EACH_MINUTE = 20
"""The most lines of one kind, and the most spans, that a process records in a minute of calls without a name."""
_MINUTE = 60.0
_MOST_KINDS = 50
"""The most kinds of which it is counted how many were left out; all others are counted together."""


class Nameless:
    """Counts what is recorded in a minute for calls without a name, and what is left out."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._recorded: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def may_record(self, kind: str, what: str) -> bool:
        """Returns whether this may be recorded: all that has a name, and the first few of each kind in a minute. `what`
        says what is left out otherwise."""
        if CURRENT.get() != NAMELESS:
            return True
        if self._recorded[kind] < EACH_MINUTE:
            self._recorded[kind] += 1
            return True
        self._left_out[what if what in self._left_out or len(self._left_out) < _MOST_KINDS else "others"] += 1
        return False

    def left_out(self) -> Counter[str]:
        """Returns what was left out, once the minute is over; then the next one begins."""
        if self._monotonic() - self._began < _MINUTE:
            return Counter()
        left_out, self._left_out = self._left_out, Counter()
        self._began = self._monotonic()
        self._recorded.clear()
        return left_out
