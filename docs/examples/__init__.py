"""Consumers of the exchanges, one for each use that they are made for (docs/events.md)."""
