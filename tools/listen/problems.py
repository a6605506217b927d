"""Explains in one line what went wrong between here and the namespace, and what to do."""

from __future__ import annotations

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
)

_FORBIDDEN = 403


class Trouble(Exception):
    """Listening is not possible; the message is for the user."""


def in_words(error: AzureError, *, topic: str, existing: str, namespace: str) -> str:
    """Returns the error as one line. `existing` is the subscription that was to be there, or empty."""
    first = str(error).partition("\n")[0]
    match error:
        case ResourceNotFoundError() | MessagingEntityNotFoundError():
            wanted = f"topic {topic} with a subscription {existing}" if existing else f"topic {topic}"
            return f"{namespace} has no {wanted}; is TOPIC_PREFIX (or --topic-prefix) that of the deployment?"
        case HttpResponseError(status_code=status) if status == _FORBIDDEN:
            return f"{namespace} refuses: creating a subscription needs a key or a role with the right to manage"
        case ServiceBusAuthorizationError():
            return f"{namespace} refuses: these credentials have no right to listen to {topic}"
        case ClientAuthenticationError() if not error.response:  # there is no token to be had: a dozen lines why
            return f"no one is signed in who could read {namespace}: run `az login`, or give --connection-string"
        case ClientAuthenticationError() | ServiceBusAuthenticationError():
            return f"{namespace} does not accept these credentials: {first}"
        case ServiceRequestError() | ServiceBusConnectionError():
            return f"{namespace} cannot be reached: {first}"
        case _:
            return first
