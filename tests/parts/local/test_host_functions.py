"""Indexing an app: what its bindings say, and mistakes that must stop the start with the function's name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from tools.local.host.errors import HostError
from tools.local.host.functions import HttpTrigger, IndexedFunction, QueueTrigger, TimerTrigger, index


def indexed(declare: Callable[[func.FunctionApp], Any]) -> IndexedFunction:
    """Returns the one function that `declare` adds to an app."""
    app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
    declare(app)
    (function,) = index(app)
    return function


def test_an_http_function() -> None:
    def declare(app: func.FunctionApp) -> None:
        @app.function_name("named")
        @app.route(route="a/{b}", methods=["GET", "put"])
        async def called(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
            return func.HttpResponse(context.function_name + req.method)

    function = indexed(declare)
    assert function.name == "named"
    assert function.trigger == HttpTrigger(route="a/{b}", methods=frozenset({"GET", "PUT"}))
    assert (function.is_async, function.wants_context, function.has_return) == (True, True, True)
    assert (function.parameter, function.directory) == ("req", str(Path(__file__).parent))


def test_an_http_function_without_route_and_methods_takes_its_name_and_all() -> None:
    def declare(app: func.FunctionApp) -> None:
        @app.route()
        def called(req):  # type: ignore[no-untyped-def]  # annotations are optional for the platform
            return req.method

    function = indexed(declare)
    assert function.trigger == HttpTrigger(route="called", methods=None)
    assert not function.is_async


def test_a_queue_function() -> None:
    def declare(app: func.FunctionApp) -> None:
        @app.queue_trigger(arg_name="text", queue_name="q", connection="", data_type=func.DataType.BINARY)
        def called(text: str) -> None:
            print(text)

    function = indexed(declare)
    assert function.trigger == QueueTrigger(queue="q", connection="AzureWebJobsStorage", binary=True)
    assert function.wants_text
    assert not function.has_return


@pytest.mark.parametrize("monitor", [None, True, False])
def test_a_timer_function(monitor: bool | None) -> None:
    def declare(app: func.FunctionApp) -> None:
        @app.timer_trigger(arg_name="timer", schedule="0 * * * * *", run_on_startup=True, use_monitor=monitor)
        def called(timer: func.TimerRequest) -> None:
            print(timer.past_due)

    trigger = indexed(declare).trigger
    assert trigger == TimerTrigger(schedule="0 * * * * *", run_on_startup=True, use_monitor=monitor is not False)


QUEUE = '@app.queue_trigger(arg_name="msg", queue_name="q", connection="c")'


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            '@app.blob_trigger(arg_name="blob", path="a/b", connection="c")\ndef culprit(blob): ...',
            "blobTrigger binding",
        ),
        (
            '@app.route()\n@app.queue_output(arg_name="out", queue_name="q", connection="")\ndef culprit(req, out): 0',
            "queue binding 'out'",
        ),
        (
            f'{QUEUE}\n@app.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:01")\n'
            "def culprit(msg): ...",
            "retry policies",
        ),
        (f"{QUEUE}\ndef culprit(message): ...", "its arguments are message, but its bindings give msg"),
        (f"{QUEUE}\ndef culprit(msg: func.TimerRequest): ...", "msg is annotated"),
        (f"{QUEUE}\ndef culprit(msg, context: str): ...", "context"),
        ("@app.route()\ndef culprit(req) -> func.HttpResponse | None: ...", "return"),
    ],
)
def test_what_cannot_be_served_is_an_error_that_names_the_function(code: str, why: str) -> None:
    with pytest.raises(HostError, match=rf"function culprit: .*{why}"):
        indexed(lambda app: exec(code, {"app": app, "func": func}))
