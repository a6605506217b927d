"""Calls a function the way Microsoft's worker library does: decode, run, check, encode.

The values take the same form as between the deployed host and the worker (`Datum`), and the same converters of
azure-functions turn them into the arguments. So what a function sees does not depend on the host.
"""

import asyncio
import contextvars
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from azure.functions.meta import Datum

from tools.local.host.context import Context, TraceContext
from tools.local.host.functions import TRIGGER_BINDINGS, IndexedFunction, converter_of
from tools.local.host.logs import invocation_id

_log = logging.getLogger(__name__)


class InvocationFailed(Exception):
    """The function raised, returned what its bindings do not allow, or did not end. It has been logged."""


class Invokes(Protocol):
    """Runs functions: here (`Invoker`), or in the app's process (`tools.local.host.workers`)."""

    async def invoke(
        self,
        function: IndexedFunction,
        payload: Datum,
        metadata: Mapping[str, Datum] | None = None,
        trace: TraceContext | None = None,
    ) -> Datum | None:
        """Runs the function once; returns its encoded return value, if it has one. Raises InvocationFailed."""


class Invoker:
    """Runs functions: asynchronous ones on the loop, synchronous ones in threads."""

    def __init__(self, *, threads: int | None = None) -> None:
        """Takes the number of threads; None means Python's default."""
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="function")

    async def invoke(
        self,
        function: IndexedFunction,
        payload: Datum,
        metadata: Mapping[str, Datum] | None = None,
        trace: TraceContext | None = None,
    ) -> Datum | None:
        """Runs a function as `Invokes` says."""
        context = Context(
            function_name=function.name,
            function_directory=function.directory,
            trace_context=trace or TraceContext.following(""),
        )
        token = invocation_id.set(context.invocation_id)
        started = time.monotonic()
        try:
            arguments = _arguments(function, payload, metadata or {}, context)
            result = await self._run(function, arguments, context)
            answer = _encode(function, result)
        except (Exception, asyncio.CancelledError) as error:  # the host cancels nothing
            _log.exception("Function %s failed", function.name)
            raise InvocationFailed(function.name) from error
        else:
            _log.info("Function %s succeeded in %.0f ms", function.name, (time.monotonic() - started) * 1000)
            return answer
        finally:
            invocation_id.reset(token)

    async def _run(self, function: IndexedFunction, arguments: dict[str, Any], context: Context) -> Any:
        context.thread_local_storage.invocation_id = context.invocation_id
        if function.is_async:
            return await function.call(**arguments)
        in_context = contextvars.copy_context()

        def call() -> Any:
            context.thread_local_storage.invocation_id = context.invocation_id
            try:
                return function.call(**arguments)
            finally:
                context.thread_local_storage.invocation_id = None

        return await asyncio.get_running_loop().run_in_executor(self._executor, in_context.run, call)


def _arguments(
    function: IndexedFunction, payload: Datum, metadata: Mapping[str, Datum], context: Context
) -> dict[str, Any]:
    if function.wants_text:
        value = payload.value
    else:
        converter = converter_of(TRIGGER_BINDINGS[type(function.trigger)])
        value = converter.decode(payload, trigger_metadata=metadata)
    arguments = {function.parameter: value}
    if function.wants_context:
        arguments["context"] = context
    return arguments


def _encode(function: IndexedFunction, result: Any) -> Datum | None:
    if not function.has_return:
        if result is not None:
            raise TypeError("a function without a $return binding returned something other than None")
        return None
    try:
        encoded = converter_of("http").encode(result, expected_type=None)
    except NotImplementedError:
        raise TypeError(f"an HTTP function must return an HttpResponse or a str, not {type(result).__name__}") from None
    assert isinstance(encoded, Datum), "the converter's contract"
    return encoded
