"""Counts and measures in memory, at the cost of a few dictionary operations a call. Exporters listen to it, and
/metrics renders it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.base import bounds
from shared.telemetry.instruments import INSTRUMENTS, Instrument

Labels = tuple[str, ...]
"""Values of labels, in the order of the instrument's labels."""

OTHER = "(others)"
"""The value of every label of the series that takes the rest. No task queue can have this name."""

Listener = Callable[[Instrument, float, Labels], None]
"""Called with every measurement (an increment, an observation, a gauge's new value), under the labels of its series."""


@dataclass
class Distribution:
    """The state of a histogram: the observations in each bucket (the last: above all bounds), and their sum."""

    buckets: list[int]
    total: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.buckets)


@dataclass
class Meter:
    """The measurements of one process."""

    process: str = ""
    """Name of the process among those of the deployment."""
    _listeners: list[Listener] = field(default_factory=list)
    _numbers: dict[Instrument, dict[Labels, float]] = field(default_factory=dict)
    _distributions: dict[Instrument, dict[Labels, Distribution]] = field(default_factory=dict)

    def add(self, counter: Instrument, *labels: str) -> None:
        """Adds one to a counter."""
        _check(counter, "counter", labels)
        series = self._numbers.setdefault(counter, {})
        kept = _bounded(labels, series)
        series[kept] = series.get(kept, 0) + 1
        self._tell(counter, 1, kept)

    def set(self, gauge: Instrument, value: float, *labels: str) -> None:
        """Sets a gauge."""
        _check(gauge, "gauge", labels)
        self._numbers.setdefault(gauge, {})[labels] = value
        self._tell(gauge, value, labels)

    def forget(self, gauge: Instrument, labels: Labels) -> None:
        """Removes the value of a gauge whose subject is not measured any more."""
        self._numbers.get(gauge, {}).pop(labels, None)

    def record(self, histogram: Instrument, value: float, *labels: str) -> None:
        """Adds one observation to a histogram."""
        _check(histogram, "histogram", labels)
        series = self._distributions.setdefault(histogram, {})
        kept = _bounded(labels, series)
        found = series.get(kept)
        if found is None:
            found = series[kept] = Distribution([0] * (len(histogram.buckets) + 1))
        found.buckets[bisect_left(histogram.buckets, value)] += 1
        found.total += value
        self._tell(histogram, value, kept)

    def listen(self, listener: Listener) -> None:
        """Reports what was counted so far, and every measurement from now on."""
        for instrument, series in list(self._numbers.items()):
            for labels, value in list(series.items()):
                listener(instrument, value, labels)
        self._listeners.append(listener)

    def series(self) -> Iterator[tuple[Instrument, Mapping[Labels, float | Distribution]]]:
        """Yields what has been measured so far, instrument by instrument."""
        for instrument in INSTRUMENTS:
            if instrument in self._numbers:
                yield instrument, self._numbers[instrument]
            elif instrument in self._distributions:
                yield instrument, self._distributions[instrument]

    def values_of(self, gauge: Instrument) -> dict[Labels, float]:
        """Returns the values of a counter or a gauge by their labels."""
        return dict(self._numbers.get(gauge, {}))

    def _tell(self, instrument: Instrument, value: float, labels: Labels) -> None:
        for listener in self._listeners:
            listener(instrument, value, labels)


def _bounded(labels: Labels, known: Collection[Labels]) -> Labels:
    """Returns the labels under which a counter or histogram counts: beyond `bounds.SERIES`, all others share one."""
    return labels if labels in known or len(known) < bounds.SERIES else (OTHER,) * len(labels)


def _check(instrument: Instrument, kind: str, labels: Labels) -> None:
    assert instrument.kind == kind, f"{instrument.name} is no {kind}"
    assert len(labels) == len(instrument.labels), f"{instrument.name} has the labels {instrument.labels}"


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(meter: Meter) -> str:
    """Returns everything that the meter knows, in Prometheus' text format. Series that each process counts for itself
    have the label `process`, with the name of the process."""
    lines: list[str] = []
    for instrument, series in meter.series():
        lines.append(f"# HELP {instrument.name} {_escaped(instrument.description)}")
        lines.append(f"# TYPE {instrument.name} {instrument.kind}")
        own = [] if instrument.kind == "gauge" and not instrument.of_process else [("process", meter.process)]
        for labels, value in sorted(series.items()):
            pairs = [*zip(instrument.labels, labels, strict=True), *own]
            if isinstance(value, Distribution):
                lines += _histogram(instrument, value, pairs)
            else:
                lines.append(f"{instrument.name}{_labelled(pairs)} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _histogram(instrument: Instrument, value: Distribution, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    below = 0
    for bound, count in zip((*map(_number, instrument.buckets), "+Inf"), value.buckets, strict=True):
        below += count
        yield f"{instrument.name}_bucket{_labelled([*pairs, ('le', bound)])} {below}"
    yield f"{instrument.name}_sum{_labelled(pairs)} {_number(value.total)}"
    yield f"{instrument.name}_count{_labelled(pairs)} {value.count}"


def _labelled(pairs: Sequence[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in pairs)
    return f"{{{inner}}}" if pairs else ""


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
