"""The Python that packages are made with, and tests that need it."""

from __future__ import annotations

import pytest

from tools.local import python313

PYTHON = python313.find()
NEEDS_PYTHON = pytest.mark.skipif(PYTHON is None, reason="no Python 3.13 found, which Azure runs the app on")
