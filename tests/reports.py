"""Makes a process of pytest-xdist report only the call of a test that went well, where pytest reports five things. Each
of them is a message to another process, where nobody looks at the other four unless they are asked for. Together they
are a fifth of what a test costs that does nothing."""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

_LOOK_AT_ALL = ("durations", "setuponly", "setupshow", "xmlpath")
"""Options that need the reports of set-up and tear-down, or of the moment at which a test begins."""


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin, unless `-v` names each test as it begins, so that one that hangs can be seen."""
    wanted = config.getoption("verbose") > 0 or any(map(config.getoption, _LOOK_AT_ALL))
    if hasattr(config, "workerinput") and not wanted:
        config.pluginmanager.register(Brief())


class Brief:
    """Plugin that runs tests in place of pytest's own."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Runs a test. If it went wrong everything is reported: the output of its tear-down belongs to its failure."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        went_well = all(report.passed for report in reports)
        for report in reports:
            if report.when == "call" or not went_well:
                item.ihook.pytest_runtest_logreport(report=report)
        return True
