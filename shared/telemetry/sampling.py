"""Chooses which traces are kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


class OwnChoice(Sampler):
    """Keeps a share of the traces, by chance for each span that comes from outside, whatever the caller has decided:
    anybody can send a `traceparent`, and the Functions host marks its calls as not sampled if it sends no traces
    itself.
    """

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
