"""A plugin of pytest that notes which test executes which lines, and how long it takes; see `reached.py`.

Its settings come in the environment: `MUTATION_REACH`, the folder for what it notes, and `MUTATION_SOURCES`, the files.
"""

import json
import os
import uuid
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

FOLDER_VARIABLE = "MUTATION_REACH"
SOURCES_VARIABLE = "MUTATION_SOURCES"
DATA = "lines"
DURATIONS = "durations"


class Recorder:
    """Measures each test in a context of its own."""

    def __init__(self, folder: Path, sources: list[str]) -> None:
        self._folder = folder
        self._durations: dict[str, float] = {}
        self._coverage = coverage.Coverage(
            data_file=folder / DATA, data_suffix=True, config_file=False, include=sources, messages=False
        )
        self._coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fixtures that are set up for a test are of its context."""
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up the durations of a test's phases."""
        self._durations[report.nodeid] = self._durations.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Written by each process of pytest-xdist; the one that only hands out tests has executed no lines."""
        self._coverage.stop()
        self._coverage.save()
        file = self._folder / f"{DURATIONS}.{uuid.uuid4().hex}.json"
        file.write_text(json.dumps(self._durations))


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported."""
    sources = [str(config.rootpath / path) for path in json.loads(os.environ[SOURCES_VARIABLE])]
    config.pluginmanager.register(Recorder(Path(os.environ[FOLDER_VARIABLE]), sources))
