"""Running functions: threads, context, and what they may return."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import azure.functions as func
import pytest
from azure.functions.meta import Datum

from tools.local.host.context import Context, TraceContext
from tools.local.host.functions import IndexedFunction, TimerTrigger
from tools.local.host.invocation import InvocationFailed, Invoker
from tools.local.host.timers import timer_payload

PAYLOAD = timer_payload(None, past_due=False)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def function(call: Callable[..., Any], *, is_async: bool, wants_context: bool = False, has_return: bool = False) -> Any:
    """Returns a function that takes a timer."""
    return IndexedFunction(
        name="f",
        call=call,
        is_async=is_async,
        directory="/app",
        raw_bindings=(),
        trigger=TimerTrigger(schedule="", run_on_startup=False, use_monitor=False),
        parameter="timer",
        wants_text=False,
        wants_context=wants_context,
        has_return=has_return,
    )


@pytest.fixture
def invoker() -> Invoker:
    return Invoker(threads=2)


async def test_a_synchronous_function_runs_in_a_thread_and_an_asynchronous_one_on_the_loop(invoker: Invoker) -> None:
    threads: list[str] = []

    def in_thread(timer: func.TimerRequest) -> None:
        threads.append(threading.current_thread().name)

    async def on_loop(timer: func.TimerRequest) -> None:
        threads.append(threading.current_thread().name)

    await invoker.invoke(function(in_thread, is_async=False), PAYLOAD)
    await invoker.invoke(function(on_loop, is_async=True), PAYLOAD)
    assert threads[0].startswith("function")
    assert threads[1] == threading.current_thread().name


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_context_describes_the_invocation(invoker: Invoker, is_async: bool) -> None:
    contexts: list[tuple[Context, str]] = []

    def note(timer: func.TimerRequest, context: Any) -> None:
        contexts.append((context, context.thread_local_storage.invocation_id))

    async def note_async(timer: func.TimerRequest, context: Any) -> None:
        note(timer, context)

    called = function(note_async if is_async else note, is_async=is_async, wants_context=True)
    for _ in range(2):
        await invoker.invoke(called, PAYLOAD, trace=TraceContext.following(PARENT, "a=b"))
    (context, local_id), (other, _) = contexts
    assert (context.function_name, context.function_directory) == ("f", "/app")
    assert local_id == context.invocation_id != other.invocation_id
    assert context.trace_context.trace_parent.startswith(PARENT[:36])
    assert context.trace_context.trace_parent != PARENT
    assert context.trace_context.Traceparent == context.trace_context.trace_parent
    assert (context.trace_context.Tracestate, context.trace_context.Attributes) == ("a=b", {})
    assert (context.retry_context.retry_count, context.retry_context.max_retry_count) == (0, 0)


def test_an_invalid_trace_parent_begins_a_new_trace() -> None:
    one, other = TraceContext.following("nonsense", "a=b"), TraceContext.following("")
    assert one.trace_parent != other.trace_parent
    assert one.trace_state == ""


@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError(), asyncio.CancelledError()])
async def test_whatever_a_function_raises_is_a_failure(invoker: Invoker, error: BaseException) -> None:
    async def failing(timer: func.TimerRequest) -> None:
        raise error

    with pytest.raises(InvocationFailed):
        await invoker.invoke(function(failing, is_async=True), PAYLOAD)


async def test_only_a_function_with_a_return_binding_may_return_a_value(invoker: Invoker) -> None:
    async def talkative(timer: func.TimerRequest) -> str:
        return "text"

    async def silent(timer: func.TimerRequest) -> None:
        return None

    with pytest.raises(InvocationFailed):
        await invoker.invoke(function(talkative, is_async=True), PAYLOAD)
    with pytest.raises(InvocationFailed):
        await invoker.invoke(function(silent, is_async=True, has_return=True), PAYLOAD)
    assert await invoker.invoke(function(silent, is_async=True), PAYLOAD) is None
    answer = await invoker.invoke(function(talkative, is_async=True, has_return=True), PAYLOAD)
    assert answer == Datum("text", "string")
