"""The functions of an app, as the host needs them: read from the indexed functions' bindings and signatures.

Works on the binding metadata that the deployed host gets too (`Function.get_raw_bindings`), and makes the checks that
Microsoft's worker library makes when it indexes an app, so that a mistake shows here and not only after deployment.
"""

import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import azure.functions

from tools.local.host.errors import HostError

_SUPPORTED = "HTTP, queue and timer triggers and the HTTP response"


@dataclass(frozen=True, kw_only=True)
class HttpTrigger:
    """An HTTP trigger. `methods`: None for all methods. `route` is without the prefix."""

    route: str
    methods: frozenset[str] | None


@dataclass(frozen=True, kw_only=True)
class QueueTrigger:
    """A queue trigger. `connection` names a setting; `binary` says that the function gets bytes, not text."""

    queue: str
    connection: str
    binary: bool


@dataclass(frozen=True, kw_only=True)
class TimerTrigger:
    """A timer trigger. `schedule` is NCRONTAB, with `%settings%` that are not replaced yet."""

    schedule: str
    run_on_startup: bool
    use_monitor: bool


Trigger = HttpTrigger | QueueTrigger | TimerTrigger

TRIGGER_BINDINGS = {HttpTrigger: "httpTrigger", QueueTrigger: "queueTrigger", TimerTrigger: "timerTrigger"}


@dataclass(frozen=True, kw_only=True)
class IndexedFunction:
    """One function of the app."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    directory: str
    """Folder of the file that defines it."""
    raw_bindings: tuple[str, ...]
    """JSON of each binding, as the deployed host gets it."""
    trigger: Trigger
    parameter: str
    """Name of the argument that takes the trigger's value."""
    wants_text: bool
    """Whether the argument is annotated as str or bytes: it takes the bare payload instead of an object."""
    wants_context: bool
    has_return: bool
    """Whether the function has a `$return` binding; without one it must return None."""


def index(app: azure.functions.FunctionRegister) -> list[IndexedFunction]:
    """Returns the functions of an app. Raises HostError naming the function on a binding that is not supported, or one
    that does not fit the signature."""
    return [_index(function) for function in app.get_functions()]


def converter_of(binding: str) -> Any:
    """Returns the converter of azure-functions that the worker library uses for a binding type."""
    registry = azure.functions.get_binding_registry()
    return registry.get(binding)


def _index(function: azure.functions.Function) -> IndexedFunction:
    name = function.get_function_name() or ""
    raw_bindings = function.get_raw_bindings()
    if function.get_setting("retry_policy") is not None:
        raise HostError(f"function {name}: retry policies are not supported by the local host")
    parameter, trigger, has_return = _read_bindings(name, [json.loads(raw) for raw in raw_bindings])
    call = function.get_user_function()
    annotations = typing.get_type_hints(call)
    wants_context = _check_signature(name, call, annotations, parameter)
    if has_return:
        _check_return(name, annotations)
    return IndexedFunction(
        name=name,
        call=call,
        is_async=inspect.iscoroutinefunction(call),
        directory=str(Path(inspect.getfile(call)).parent),
        raw_bindings=tuple(raw_bindings),
        trigger=trigger,
        parameter=parameter,
        wants_text=_wants_text(name, parameter, trigger, annotations),
        wants_context=wants_context,
        has_return=has_return,
    )


def _read_bindings(name: str, bindings: Sequence[Mapping[str, Any]]) -> tuple[str, Trigger, bool]:
    found: list[tuple[str, Trigger]] = []
    has_return = False
    for binding in bindings:
        match binding["type"]:
            case "httpTrigger":
                methods = binding.get("methods")
                trigger: Trigger = HttpTrigger(
                    route=(binding.get("route") or "").strip() or name,
                    methods=frozenset(method.upper() for method in methods) if methods else None,
                )
            case "queueTrigger":
                trigger = QueueTrigger(
                    queue=binding["queueName"],
                    connection=binding.get("connection") or "AzureWebJobsStorage",
                    binary=str(binding.get("dataType", "")).upper() == "BINARY",
                )
            case "timerTrigger":
                trigger = TimerTrigger(
                    schedule=binding["schedule"],
                    run_on_startup=bool(binding.get("runOnStartup")),
                    use_monitor=binding.get("useMonitor") is not False,
                )
            case "http" if binding["name"] == "$return":
                has_return = True
                continue
            case kind:
                raise HostError(
                    f"function {name}: the local host does not support its {kind} binding {binding['name']!r}; "
                    f"it serves {_SUPPORTED}"
                )
        found.append((binding["name"], trigger))
    if len(found) != 1:
        raise HostError(f"function {name} must have one trigger, not {len(found)}")
    return *found[0], has_return


def _check_signature(name: str, call: Callable[..., Any], annotations: Mapping[str, Any], parameter: str) -> bool:
    """Checks that a function's signature fits its bindings; returns whether the function asks for its context."""
    parameters = set(inspect.signature(call).parameters)
    wants_context = "context" in parameters and parameter != "context"
    if wants_context:
        annotation = annotations.get("context")
        if annotation is not None and getattr(annotation, "__name__", "") != "Context":
            raise HostError(f"function {name}: the argument context must be of type azure.functions.Context")
    expected = {parameter, "context"} if wants_context else {parameter}
    if parameters != expected:
        raise HostError(
            f"function {name}: its arguments are {', '.join(sorted(parameters)) or 'none'}, "
            f"but its bindings give {', '.join(sorted(expected))}"
        )
    return wants_context


def _check_return(name: str, annotations: Mapping[str, Any]) -> None:
    annotation = annotations.get("return", str)
    # The worker library takes a class only: no union, not even with None.
    if not isinstance(annotation, type) or not converter_of("http").check_output_type_annotation(annotation):
        raise HostError(f"function {name}: it must be annotated to return HttpResponse or str, not {annotation!r}")


def _wants_text(name: str, parameter: str, trigger: Trigger, annotations: Mapping[str, Any]) -> bool:
    annotation = annotations.get(parameter)
    if annotation is None:
        return False
    if annotation in (str, bytes) and not isinstance(trigger, HttpTrigger):
        return True
    converter = converter_of(TRIGGER_BINDINGS[type(trigger)])
    if not isinstance(annotation, type) or not converter.check_input_type_annotation(annotation):
        raise HostError(f"function {name}: the argument {parameter} is annotated as {annotation!r}, not as its trigger")
    return False
