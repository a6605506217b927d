"""Structured logs: one JSON object per line on standard error. Headers and query strings are never logged."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

from tools.local.host.config import TRACE

invocation_id: ContextVar[str | None] = ContextVar("invocation_id", default=None)
"""The invocation that is running, named in every line that it logs."""

_LEVEL_NAMES = {TRACE: "Trace", logging.INFO: "Information"}
"""The platform's names of levels, where they are not Python's."""

_CHATTY = ("azure", "uvicorn", "asyncio", "aiohttp")
"""Libraries that log requests with their URLs or headers at Information."""


class JsonFormatter(logging.Formatter):
    """Renders a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, without its end."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _LEVEL_NAMES.get(record.levelno, record.levelname.capitalize()),
            "logger": record.name,
            "message": record.getMessage(),
        }
        invocation = invocation_id.get()
        if invocation:
            line["invocation"] = invocation
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logs(level: int) -> None:
    """Sends all logs of the process to standard error, from `level` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
