"""Drives Microsoft's worker library (azure-functions-runtime) in this process, as its own front end does.

The only place that knows the library's private names; therefore pinned to one version. Needs Python 3.13 or newer.
"""

import importlib
import importlib.metadata
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

VERSION = "1.3.0"


class _Record(SimpleNamespace):
    """Stands for a message of the wire protocol."""


class _BindingInfo(_Record):
    undefined = 0
    out = 1
    inout = 2


class WorkerLibrary:
    """The library with one app loaded. The app's folder must be importable."""

    def __init__(self, directory: Path) -> None:
        """Raises RuntimeError if another version of the library is installed than the one known here."""
        installed = importlib.metadata.version("azure-functions-runtime")
        if installed != VERSION:
            raise RuntimeError(f"azure-functions-runtime {installed} is installed; this adapter knows {VERSION}")
        events: Any = importlib.import_module("azure_functions_runtime.handle_event")
        events.protos = SimpleNamespace(BindingInfo=_BindingInfo, RpcFunctionMetadata=_Record, RpcRetryOptions=_Record)
        importlib.import_module("azure_functions_runtime.bindings.meta").load_binding_registry()
        events.load_function_metadata(str(directory), caller_info="test")
        importlib.import_module("azure_functions_runtime").start_threadpool_executor()
        self._datum = importlib.import_module("azure_functions_runtime.bindings.datumdef").Datum
        self._invoke = importlib.import_module("azure_functions_runtime.native_invocation").invocation_request_native
        self._infos: dict[str, Any] = events._functions._functions
        self._metadata = {metadata.name: metadata for metadata in events._metadata_result}

    def names(self) -> list[str]:
        """Returns the names of the functions, in the order of the app."""
        return list(self._metadata)

    def metadata(self, name: str) -> Any:
        """Returns what the library reports to the host of a function: `raw_bindings`, `script_file` …"""
        return self._metadata[name]

    def info(self, name: str) -> Any:
        """Returns what the library keeps of a function: `is_async`, `requires_context`, `input_types` …"""
        return self._infos[self._metadata[name].function_id]

    def replace(self, name: str, call: Callable[..., Any]) -> None:
        """Lets the library call something else in place of the function; async or not as the function is."""
        identifier = self._metadata[name].function_id
        self._infos[identifier] = self._infos[identifier]._replace(func=call)

    def datum(self, value: object, kind: str) -> Any:
        """Returns a value as the library's own Datum."""
        return self._datum(value, kind)

    async def invoke(self, name: str, payload: Any, metadata: Mapping[str, Any], trace_parent: str) -> tuple[bool, Any]:
        """Invokes a function; returns whether it succeeded, and the Datum that it returned."""
        (parameter,) = self.info(name).input_types
        succeeded, result, *_ = await self._invoke(
            str(uuid.uuid4()),
            self._metadata[name].function_id,
            [(parameter, payload)],
            dict(metadata),
            trace_parent,
        )
        return succeeded, result
