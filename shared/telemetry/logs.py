"""Structured logs: every line of the service ends with its fields as one JSON object.

Between a Functions worker and its host a record is only text, so the fields are part of the text. OpenTelemetry, and
Application Insights through it, get the fields as attributes. The fields of a call or a message (such as its taskId)
are bound once, and stand in each of its lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

NAMESPACE = "taskcluster"
"""Prefix of the names of this service's loggers."""
READS = f"{NAMESPACE}.calls.reads"
"""Name of the logger of calls that have succeeded and changed nothing, which most calls do. Its lines are exported if
their traces are."""

_bound: ContextVar[Mapping[str, str | int]] = ContextVar("_bound", default=MappingProxyType({}))
_ENCODER = json.JSONEncoder(default=str, ensure_ascii=False)
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


@contextmanager
def bound(**fields: str | int) -> Iterator[None]:
    """Binds fields to every line that is logged inside the context, also by tasks that are started inside."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class Record(logging.LogRecord):
    """A log record whose text ends with its fields."""

    __slots__ = ("_bound",)  # a slot, since logging refuses fields whose names are in __dict__

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bound = _bound.get()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the record: the bound ones, and those that the call of the logger adds."""
        if self.name != NAMESPACE and not self.name.startswith(f"{NAMESPACE}."):
            return {}
        own = {name: value for name, value in self.__dict__.items() if name not in _OWN}
        return {**self._bound, **own}

    def getMessage(self) -> str:  # noqa: N802 - the name that logging gives it
        """Returns the text, and the fields as JSON. Lone surrogates, which no host takes, are escaped."""
        text = super().getMessage()
        if fields := self.fields:
            text = f"{text} {_ENCODER.encode(fields)}"
        return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def structure_logs() -> None:
    """Structures all records of this process from now on, and lets Azure's libraries log warnings alone. The worker
    sends each line of a library to the host, and Service Bus has 18 for one connection."""
    logging.setLogRecordFactory(Record)
    logging.getLogger("azure").setLevel(logging.WARNING)
