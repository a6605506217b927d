"""Tests that share something expensive run in one process."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("selection")
def test_the_scheduler_sees_the_groups_of_tests(request: pytest.FixtureRequest) -> None:
    """pytest-xdist tells its scheduler a test's group behind the test's name; where that fails, nothing says so."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("not run with --dist loadgroup")
    assert request.node.nodeid.endswith("@selection")
