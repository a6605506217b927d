"""What functions get to see, from Microsoft's worker library or from the local host: the same app, the same stimuli.

Run as `python -m tests.parts.local.fidelity library|host APP_DIRECTORY`, in a process of its own (an app can be
indexed only once), with stimuli as JSON on standard input; prints as JSON how the app was
indexed and what each stimulus led to.
The functions' own code is replaced by a spy, so that any app will do. Needs neither pytest nor the library for `host`.
"""

import asyncio
import dataclasses
import json
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import azure.functions as func
from azure.functions.meta import Datum
from azure.storage.queue import QueueMessage

from tests.parts.local.worker_library import WorkerLibrary
from tools.local.host.blobs import ScheduleStatus
from tools.local.host.context import TraceContext
from tools.local.host.functions import TRIGGER_BINDINGS, QueueTrigger, index
from tools.local.host.invocation import InvocationFailed, Invoker
from tools.local.host.loading import load_app
from tools.local.host.queues import message_metadata, message_payload
from tools.local.host.timers import timer_payload

Document = dict[str, Any]

HOST = "queue.example.com"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_METHODS = ("get_body", "get_json")
_SPAN = re.compile(r"^(00-[0-9a-f]{32}-)[0-9a-f]{16}(-[0-9a-f]{2})$")


class Spy:
    """Stands in for a function: notes its arguments, and does what the stimulus says."""

    def __init__(self) -> None:
        self.result = "none"
        self.seen: Document = {}

    def stand_in(self, *, is_async: bool) -> Callable[..., Any]:
        """Returns a function to be called in place of the app's."""

        def call(**arguments: object) -> object:
            self.seen = {name: describe(value) for name, value in arguments.items()}
            return _result(self.result)

        async def call_async(**arguments: object) -> object:
            return call(**arguments)

        return call_async if is_async else call


def _result(kind: str) -> object:
    match kind:
        case "none":
            return None
        case "text":
            return "a bare string"
        case "response":
            return func.HttpResponse(
                b"\x00bytes", status_code=202, headers={"X-One": "1", "Set-Cookie": "a=b; Path=/"}, mimetype="a/b"
            )
        case _:
            raise RuntimeError("as the stimulus says")


def describe(value: object) -> Any:
    """Returns a value as JSON, with its type and all of its public attributes."""
    if value is None or isinstance(value, (str, int, float)):
        return _without_chance(value)
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, Mapping):
        return {"type": _type_name(value), "items": {str(key): describe(item) for key, item in value.items()}}
    attributes = {name: _attribute(value, name) for name in dir(value) if not name.startswith("_")}
    shown = {name: found for name, found in attributes.items() if found is not NotImplemented}
    return {"type": _type_name(value), **shown}


def _attribute(value: object, name: str) -> Any:
    if name == "thread_local_storage":
        return {"holds the invocation's id": getattr(value, name).invocation_id == value.invocation_id}  # type: ignore[attr-defined]  # only a Context has it
    found = getattr(value, name)
    if not callable(found):
        return describe(found)
    if name not in _METHODS:
        return NotImplemented
    try:
        return describe(found())
    except ValueError as error:
        return {"raises": type(error).__name__, "says": str(error)}


def _type_name(value: object) -> str:
    # The context's classes are each side's own; those of the arguments are azure-functions'.
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__.startswith("azure.functions.") else kind.__name__


def _without_chance(value: object) -> object:
    """Replaces ids, which are random: a UUID becomes "(uuid)", and a trace context loses its span."""
    if not isinstance(value, str):
        return value
    try:
        return "(uuid)" if str(uuid.UUID(value)) == value else value
    except ValueError:
        return _SPAN.sub(r"\1(span)\2", value)


class LibrarySide:
    """Microsoft's worker library; the payload and metadata of a stimulus are what the Functions host would send."""

    def __init__(self, directory: Path) -> None:
        sys.path.insert(0, str(directory))
        self._library = WorkerLibrary(directory)

    def functions(self) -> Document:
        """Returns how the library has indexed the app."""
        found = {}
        for name in self._library.names():
            info, metadata = self._library.info(name), self._library.metadata(name)
            (parameter,) = info.input_types
            found[name] = {
                "bindings": [json.loads(raw) for raw in metadata.raw_bindings],
                "script": metadata.script_file,
                "directory": info.directory,
                "async": info.is_async,
                "context": info.requires_context,
                "returns": info.has_return,
                "parameter": parameter,
                "decoded as": info.input_types[parameter].binding_name,
            }
        return found

    async def run(self, stimulus: Document) -> Document:
        """Invokes a function through the library."""
        spy = Spy()
        spy.result = stimulus["result"]
        name = stimulus["function"]
        self._library.replace(name, spy.stand_in(is_async=self._library.info(name).is_async))
        make = self._library.datum
        metadata = {key: _datum(value, make) for key, value in stimulus.get("metadata", {}).items()}
        succeeded, result = await self._library.invoke(name, _datum(stimulus["payload"], make), metadata, TRACE)
        return {"seen": spy.seen, "succeeded": succeeded, "answer": _answer(result) if succeeded else None}


class HostSide:
    """The local host. It makes itself what it sends to the app's process for a message and a timer."""

    def __init__(self, directory: Path) -> None:
        self._functions = {function.name: function for function in index(load_app(directory))}
        self._invoker = Invoker()

    def functions(self) -> Document:
        """Returns how the local host has indexed the app."""
        return {
            name: {
                "bindings": [json.loads(raw) for raw in function.raw_bindings],
                "script": "function_app.py",
                "directory": function.directory,
                "async": function.is_async,
                "context": function.wants_context,
                "returns": function.has_return,
                "parameter": function.parameter,
                "decoded as": "generic" if function.wants_text else TRIGGER_BINDINGS[type(function.trigger)],
            }
            for name, function in self._functions.items()
        }

    async def run(self, stimulus: Document) -> Document:
        """Invokes a function through the local host."""
        spy = Spy()
        spy.result = stimulus["result"]
        function = self._functions[stimulus["function"]]
        function = dataclasses.replace(function, call=spy.stand_in(is_async=function.is_async))
        metadata: Mapping[str, Datum] = {}
        match stimulus:
            case {"message": raw}:
                times = {name: datetime.fromisoformat(raw[name]) for name in raw if name.endswith("_on")}
                message = QueueMessage(**{**raw, **times})
                assert isinstance(function.trigger, QueueTrigger), "only these get messages"
                payload = message_payload(message.content, "base64", binary=function.trigger.binary)
                metadata = message_metadata(message)
            case {"timer": (status, past_due)}:
                known = status and ScheduleStatus(*map(datetime.fromisoformat, status))
                payload = timer_payload(known, past_due=past_due)
            case _:
                payload = _datum(stimulus["payload"], Datum)
        try:
            answer = await self._invoker.invoke(function, payload, metadata, TraceContext.following(TRACE))
        except InvocationFailed:
            return {"seen": spy.seen, "succeeded": False, "answer": None}
        return {"seen": spy.seen, "succeeded": True, "answer": _answer(answer)}


def _datum(value: Document, make: Callable[[Any, str], Any]) -> Any:
    """Makes a Datum of `{"string": …}`, `{"json": …}`, `{"bytes": hex}` or `{"http": {field: …}}`."""
    ((kind, content),) = value.items()
    match kind:
        case "bytes":
            content = bytes.fromhex(content)
        case "json":
            content = json.dumps(content)
        case "http":
            maps = ("headers", "params", "query")
            content = {
                name: {key: make(text, "string") for key, text in part.items()} if name in maps else _datum(part, make)
                for name, part in content.items()
            }
    return make(content, kind)


def _answer(result: Any) -> Document | None:
    """Returns what a function has returned, in the form in which it is sent to the host."""
    if result is None or result.type == "string":
        return result and {"text": result.value}
    fields = result.value
    return {
        "status": fields["status_code"].value,
        "headers": {name: value.value for name, value in fields["headers"].items()},
        "cookies": [morsel.OutputString() for jar in fields["cookies"] or [] for morsel in jar.values()],
        "body": fields["body"].value.hex(),
    }


async def _main() -> None:
    kind, directory = sys.argv[1:]
    side = LibrarySide(Path(directory)) if kind == "library" else HostSide(Path(directory))
    results = [await side.run(stimulus) for stimulus in json.load(sys.stdin)]
    json.dump({"functions": side.functions(), "results": results}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(_main())
