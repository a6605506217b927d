"""Why a message was not accepted."""

from __future__ import annotations

from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthorizationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)

from shared.base.errors import ServiceError

REFUSALS = (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthorizationError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)
"""Service Bus answered, and the answer was no: trying again at once won't help, and other topics may do well."""


class SendTimeout(ServiceError):
    """Service Bus did not answer in time."""


class Blocked(ServiceError):
    """Not tried, since Service Bus has been failing."""


class NotOpen(ServiceError):
    """The connection is still being opened, or could not be."""


def may_be_about_one_message(error: ServiceBusError) -> bool:
    """Whether a batch may have been refused for one of its messages: for its size, or a reason without an SDK type."""
    return isinstance(error, MessageSizeExceededError) or type(error) is ServiceBusError
