"""An app that tells what arrives and does what it is asked, so that tests see what a host does with it."""

import asyncio
import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
RELEASED = asyncio.Event()


def _note(**what: Any) -> None:
    with Path(os.environ["SEEN_FILE"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), **what}) + "\n")


async def _do(order: dict[str, Any]) -> None:
    """Notes the beginning, does what is asked, and notes the end; also notes whatever ends it before."""
    _note(begun=order.get("id"))
    try:
        await asyncio.sleep(float(order.get("sleep", 0)))
        if "held" in order:
            await RELEASED.wait()
    except BaseException as error:
        _note(cut=order.get("id"), error=type(error).__name__)
        raise
    if "release" in order:
        RELEASED.set()
    if "raise" in order:
        raise RuntimeError("meant to fail")
    if "exit" in order:
        os._exit(int(order["exit"]))
    _note(ended=order.get("id"))


@app.function_name("http")
@app.route("{*path}", methods=["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def http(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Does what its `x-…` headers say; answers what `x-answer` says (base64 of JSON), or what it has seen."""
    headers = {name.lower(): value for name, value in req.headers.items()}
    await _do({name[2:]: value for name, value in headers.items() if name.startswith("x-")})
    if "x-answer" in headers:
        answer = json.loads(base64.b64decode(headers["x-answer"]))
        body = b"x" * answer.pop("big", 0) or answer.pop("body", "").encode("latin-1")
        return func.HttpResponse(body, status_code=answer.pop("status", 200), **answer)
    body = req.get_body()
    seen = {
        "method": req.method,
        "url": req.url,
        "params": dict(req.params),
        "route": req.route_params.get("path", ""),
        "headers": headers,
        "length": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "invocation": context.invocation_id,
    }
    return func.HttpResponse(json.dumps(seen), mimetype="application/json")


@app.function_name("q")
@app.queue_trigger(arg_name="msg", queue_name="%SAMPLE_QUEUE%", connection="AzureWebJobsStorage")
async def q(msg: func.QueueMessage) -> None:
    """Does what the message says."""
    _note(message=msg.get_json(), count=msg.dequeue_count)
    await _do(msg.get_json())


@app.function_name("t")
@app.timer_trigger(arg_name="timer", schedule="%SAMPLE_SCHEDULE%", run_on_startup=True)
async def t(timer: func.TimerRequest) -> None:
    """Notes that it ran."""
    _note(timer=True, past_due=timer.past_due)
