"""The `context` argument of a function. It has the attributes that the worker library's own has."""

import re
import secrets
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any, Self

_TRACE_PARENT = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2})")

_thread_local = threading.local()


@dataclass(frozen=True)
class TraceContext:
    """W3C trace context; the capitalised names are the older spelling."""

    trace_parent: str = ""
    trace_state: str = ""
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def Traceparent(self) -> str:  # noqa: N802 - the platform's name
        """The same as `trace_parent`."""
        return self.trace_parent

    @property
    def Tracestate(self) -> str:  # noqa: N802 - the platform's name
        """The same as `trace_state`."""
        return self.trace_state

    @property
    def Attributes(self) -> dict[str, str]:  # noqa: N802 - the platform's name
        """The same as `attributes`."""
        return self.attributes

    @classmethod
    def following(cls, trace_parent: str, trace_state: str = "") -> Self:
        """Returns a new span in the trace of `trace_parent`, or in a new trace if that is not valid."""
        match = _TRACE_PARENT.fullmatch(trace_parent)
        trace, flags = match.groups() if match else (secrets.token_hex(16), "00")
        return cls(f"00-{trace}-{secrets.token_hex(8)}-{flags}", trace_state if match else "")


@dataclass(frozen=True)
class RetryContext:
    """The context of retries by policy, of which this host makes none."""

    retry_count: int = 0
    max_retry_count: int = 0
    rpc_exception: None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a function learns about its invocation."""

    function_name: str
    function_directory: str
    trace_context: TraceContext
    invocation_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    retry_context: RetryContext = RetryContext()

    @property
    def thread_local_storage(self) -> Any:
        """Storage of the running thread; in a synchronous function it holds `invocation_id`."""
        return _thread_local
