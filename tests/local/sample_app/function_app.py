"""An app with one function of each kind that the local host serves. What they see goes to the file $SEEN_FILE."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
blueprint = func.Blueprint()


def _seen(entry: dict[str, Any]) -> None:
    with Path(os.environ["SEEN_FILE"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def _echo(req: func.HttpRequest) -> func.HttpResponse:
    document = {
        "method": req.method,
        "url": req.url,
        "headers": dict(req.headers),
        "params": dict(req.params),
        "route": dict(req.route_params),
        "size": len(req.get_body()),
        "body": req.get_body()[:1000].decode("latin-1"),
    }
    return func.HttpResponse(json.dumps(document), mimetype="application/json", headers={"X-Echo": "yes"})


_meetings: dict[int, tuple[asyncio.Event, list[None]]] = {}


async def _met(number: int) -> func.HttpResponse:
    """Returns when so many requests of this number are there."""
    _seen({"function": "answers", "kind": "meet"})
    complete, arrived = _meetings.setdefault(number, (asyncio.Event(), []))
    arrived.append(None)
    if len(arrived) == number:
        complete.set()
    await complete.wait()
    return func.HttpResponse("met")


@blueprint.route(route="items/{name}", methods=["GET", "PUT", "HEAD"])
async def item(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Echoes the request."""
    response = _echo(req)
    response.headers["X-Invocation"] = context.invocation_id
    return response


@blueprint.route(route="files/{*rest}", methods=["GET", "POST"])
def files(req: func.HttpRequest) -> func.HttpResponse:
    """Echoes the request, from a thread."""
    return _echo(req)


@blueprint.route(route="words", methods=["GET"])
async def words(req: func.HttpRequest) -> str:
    """Returns a bare string."""
    return "plain"


@blueprint.route(route="answers/{kind}", methods=["GET"])
async def answers(req: func.HttpRequest) -> func.HttpResponse:
    """Returns various values, good and bad."""
    match req.route_params["kind"]:
        case "error":
            raise RuntimeError("meant to fail")
        case "slow":
            await asyncio.sleep(float(req.params["seconds"]))
            return func.HttpResponse("slept")
        case "meet":
            return await _met(int(req.params["number"]))
        case "cookies":
            return func.HttpResponse(headers={"Set-Cookie": "a=1; Path=/"}, status_code=204)
        case _:
            return func.HttpResponse(status_code=404, body=b"no such kind")


@blueprint.queue_trigger(arg_name="message", queue_name="%SAMPLE_QUEUE%", connection="SampleStorage")
async def work(message: func.QueueMessage, context: func.Context) -> None:
    """Does what the message says: nothing, fail, or wait."""
    order = message.get_json()
    _seen({"function": "work", "id": message.id, "count": message.dequeue_count, "order": order, "pid": os.getpid()})
    if order.get("wait"):
        await asyncio.sleep(order["wait"])
    if order.get("fail"):
        raise RuntimeError("meant to fail")
    _seen({"function": "work", "id": message.id, "done": True})


@blueprint.queue_trigger(arg_name="message", queue_name="%SAMPLE_QUEUE%-sync", connection="SampleStorage")
def work_in_thread(message: func.QueueMessage) -> None:
    """The same from a thread."""
    time.sleep(message.get_json().get("wait", 0))
    _seen({"function": "work_in_thread", "id": message.id, "done": True})


@blueprint.timer_trigger(arg_name="timer", schedule="%SAMPLE_SCHEDULE%", run_on_startup=True)
async def tick(timer: func.TimerRequest) -> None:
    """Notes that it ran."""
    _seen({"function": "tick", "past_due": timer.past_due})


app.register_functions(blueprint)
