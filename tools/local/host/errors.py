"""The host's own errors."""


class HostError(Exception):
    """The app or its configuration cannot be served; the message says in one sentence what to change."""
