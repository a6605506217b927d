"""Errors of the host itself."""


class HostError(Exception):
    """The app or its configuration cannot be served; the message says in one sentence what to change."""
