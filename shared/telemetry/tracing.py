"""Spans: what a call or a message went through. Without an exporter they cost next to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

Kind = Literal["server", "consumer", "producer", "client", "internal"]
Attributes = Mapping[str, str | int | float | bool]


class Span(Protocol):
    """Something that takes time. It ends with the `with` that began it; an exception that leaves it is noted."""

    def note(self, attributes: Attributes) -> None:
        """Adds attributes to the span."""
        ...

    def fail(self, reason: str) -> None:
        """Marks the span as failed."""
        ...


class Tracer(Protocol):
    """Begins spans."""

    @property
    def is_on(self) -> bool:
        """Whether anybody looks at the spans."""
        ...

    def span(
        self, name: str, kind: Kind, attributes: Attributes, *, parent: str | None = None
    ) -> AbstractContextManager[Span]:
        """A span below the one that is under way here, or below a `parent` as a W3C traceparent."""
        ...


class _NoSpan:
    def note(self, attributes: Attributes) -> None:
        """Does nothing."""

    def fail(self, reason: str) -> None:
        """Does nothing."""


class NoTracer:
    """A tracer that records nothing, for deployments without an exporter."""

    is_on = False
    _span = _NoSpan()

    def span(
        self, name: str, kind: Kind, attributes: Attributes, *, parent: str | None = None
    ) -> AbstractContextManager[Span]:
        """A span that records nothing."""
        return nullcontext(self._span)
