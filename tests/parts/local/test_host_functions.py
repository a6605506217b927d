"""Indexing an app: what its bindings say, and mistakes that must stop the start with the function's name."""

from collections.abc import Callable
from typing import Any

import azure.functions as func
import pytest

from tools.local.host.errors import HostError
from tools.local.host.functions import IndexedFunction, index


def indexed(declare: Callable[[func.FunctionApp], Any]) -> IndexedFunction:
    """Returns the one function that `declare` adds to an app."""
    app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
    declare(app)
    (function,) = index(app)
    return function


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
