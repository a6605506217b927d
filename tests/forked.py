"""Processes of pytest-xdist that are forked from one that has imported the test modules.

Each would spend four seconds of CPU on the same imports. pytest-xdist starts `tests/forked_client.py` in place of a
Python. It hands its standard streams on; the forked process reads from them what it is to do, as a Python would.
"""

from __future__ import annotations

import atexit
import gc
import logging
import multiprocessing
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path

import coverage
import pytest
from execnet import XSpec
from hypothesis import HealthCheck, given, settings, strategies

from tests import programs, selection
from tools.local.state import ROOT

_CLIENT = Path(__file__).with_name("forked_client.py")
_FORKS = multiprocessing.get_context("fork")
_FILES = 3
"""Number of standard streams: input, output and error."""


def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Starts the process that forks, before pytest-xdist starts its processes. A run of only some of the tests does
    without it, and so does a measurement of coverage, which has to begin with an interpreter."""
    if not selection.takes_all_folders(config) or coverage.Coverage.current() is not None:
        return
    folder = tempfile.mkdtemp()
    config.add_cleanup(lambda: shutil.rmtree(folder))
    address = f"{folder}/forks"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    process = _FORKS.Process(target=_fork_for_each, args=(listener, selection.modules(config)))
    process.start()
    listener.close()  # here, so that clients notice if that process ends
    config.add_cleanup(process.join)
    config.add_cleanup(process.terminate)
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-I", "-S", str(_CLIENT), address])


def _fork_for_each(listener: socket.socket, modules: Sequence[str]) -> None:
    """Imports the test modules, then forks a process for each request, until it or its starter has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import(modules)
    _draw()
    programs.start_server()
    assert threading.active_count() == 1, "a forked process has none of the threads that a module has started"
    gc.freeze()
    starter = multiprocessing.parent_process()
    assert starter is not None
    while starter.sentinel not in wait([listener, starter.sentinel]):
        client, _ = listener.accept()
        code, files, _, _ = socket.recv_fds(client, 4096, _FILES)
        _FORKS.Process(target=_begin, args=(client, code.decode(), files)).start()
        for opened in files:
            os.close(opened)
        client.close()


def _import(modules: Sequence[str]) -> None:
    """Imports the modules with warnings as errors. A module that fails is left to the processes, which report it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in modules:
            try:
                import_module(module)
            except Exception as error:
                print(f"{module}: {error!r}", file=sys.stderr)


@settings(max_examples=5, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(strategies.lists(strategies.text(), min_size=200))
def _draw(drawn: list[str]) -> None:
    """Draws a first example: before it, Hypothesis reads the characters of Unicode and searches our modules."""


def _begin(client: socket.socket, code: str, files: Sequence[int]) -> None:
    """Runs the code as `python -c` would. The client waits until this process closes its connection."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    programs.begin(ROOT, dict(os.environ), files)
    for opened in files:
        os.close(opened)
    programs.begin_as_new()
    programs.share_server()
    logging.getLogger().handlers.clear()  # those of the process that starts the others
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(code, main.__dict__)
    finally:
        atexit._run_exitfuncs()
        client.close()
