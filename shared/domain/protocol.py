"""The timing rules that make the design safe, each with its reason."""

from __future__ import annotations

from datetime import timedelta

CLOCK_SKEW = timedelta(minutes=15)
"""URLs are valid from this long ago, since clocks differ."""
