"""The text that Prometheus scrapes (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shared.telemetry.instruments import Instrument
from shared.telemetry.meter import Distribution, Meter

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(meter: Meter, process: str) -> str:
    """Everything that the meter knows. What only one process counts has its name in the label `process`."""
    return "".join(f"{line}\n" for line in _lines(meter, process))


def _lines(meter: Meter, process: str) -> Iterator[str]:
    for instrument, series in meter.series():
        yield f"# HELP {instrument.name} {_escaped(instrument.description)}"
        yield f"# TYPE {instrument.name} {instrument.kind}"
        own = [] if instrument.kind == "gauge" and not instrument.of_process else [("process", process)]
        for labels, value in sorted(series.items()):
            pairs = [*zip(instrument.labels, labels, strict=True), *own]
            if isinstance(value, Distribution):
                yield from _histogram(instrument, value, pairs)
            else:
                yield f"{instrument.name}{_labelled(pairs)} {_number(value)}"


def _histogram(instrument: Instrument, value: Distribution, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    below = 0
    for bound, count in zip((*map(_number, instrument.buckets), "+Inf"), value.buckets, strict=True):
        below += count
        yield f"{instrument.name}_bucket{_labelled([*pairs, ('le', bound)])} {below}"
    yield f"{instrument.name}_sum{_labelled(pairs)} {_number(value.total)}"
    yield f"{instrument.name}_count{_labelled(pairs)} {value.count}"


def _labelled(pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    inner = ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in pairs)
    return f"{{{inner}}}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
