"""Makes the compatibility matrix of a test run, and holds the committed one against it.

A test says with `@pytest.mark.endpoint("createTask")` which row of the contract's table it proves; the fixture that
such tests run on fails them unless the endpoint was answered with success. What passed goes to the process that
reports, also from other processes of pytest-xdist.
"""

from __future__ import annotations

import pytest

from tests.promises.compatibility.matrix import DOCUMENT, document
from tests.promises.compatibility.rows import BY_NAME, ROWS

_PROPERTY = "endpoint"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that writes the document."""
    parser.addoption("--write-compatibility", action="store_true", help="write docs/compatibility.md from this run")


def pytest_configure(config: pytest.Config) -> None:
    """Adds the marker, and a listener in the process that reports."""
    config.addinivalue_line("markers", "endpoint(name): proves a row of docs/compatibility.md")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Proofs(config))


def endpoints_of(item: pytest.Item) -> list[str]:
    """Returns the rows that a test proves."""
    return [str(mark.args[0]) for mark in item.iter_markers("endpoint")]


def endpoints_to_answer(item: pytest.Item) -> set[str]:
    """Returns the endpoints that must answer a test with success, so that it proves its rows."""
    rows = [BY_NAME[name] for name in endpoints_of(item)]
    return {row.served_by for row in rows if row.is_supported}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Notes what the test proves, so that it comes with the test's report."""
    for name in endpoints_of(item):
        assert name in BY_NAME, f"{name} is no row of the contract's table"
        item.user_properties.append((_PROPERTY, name))


class _Proofs:
    """The rows that have been proved so far."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passed: dict[str, set[str]] = {}
        self._failed: set[str] = set()
        self.problem = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the outcome of a test's setup, call or teardown."""
        for key, name in report.user_properties:
            if key != _PROPERTY:
                continue
            test = report.nodeid.partition("[")[0].partition("@")[0]  # after it stands its group, if it has one
            if report.failed or report.skipped:
                self._failed.add(test)
            elif report.when == "call":
                self._passed.setdefault(str(name), set()).add(test)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the document, or compares it if this run has proved every row."""
        proofs = {name: sorted(tests - self._failed) for name, tests in self._passed.items()}
        missing = [row.name for row in ROWS if not proofs.get(row.name)]
        write = self._config.getoption("--write-compatibility")
        if missing:
            self.problem = f"rows without a passing test: {', '.join(missing)}" if write else ""
        elif write:
            DOCUMENT.write_text(document(proofs))
        elif not DOCUMENT.exists() or DOCUMENT.read_text() != document(proofs):
            self.problem = "docs/compatibility.md is not what this run has proved"
        if self.problem and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints what is wrong, and what to do."""
        if self.problem:
            terminalreporter.write_line(f"{self.problem}; run: ./dev test -m endpoint --write-compatibility", red=True)
