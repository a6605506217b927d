"""The base of all errors of this service, and those that a caller of the API may see (contract 12)."""

from __future__ import annotations

from typing import ClassVar


class ServiceError(Exception):
    """Base of every exception that the service defines."""


class ApiError(ServiceError):
    """Base of every answer in the contract's error envelope: `code`, HTTP `status` and a message for people."""

    code: ClassVar[str]
    status: ClassVar[int]
    retry_after: ClassVar[str | None] = None
    """Seconds that a client may wait before it repeats the call."""
    outcome: ClassVar[str | None] = None
    """The outcome to log and count in place of the status if the answer is neither a refusal nor a failure."""

    def __init_subclass__(cls, *, status: int | None = None) -> None:
        """Sets `code` to the name of the class, if the class states an HTTP status."""
        if status is not None:
            cls.code, cls.status = cls.__name__, status

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MalformedPayload(ApiError, status=400):
    """The body is not JSON, or its content type is not."""


class InvalidRequestArguments(ApiError, status=400):
    """A URL parameter or a query parameter does not match its pattern."""


class InputValidationError(ApiError, status=400):
    """The body does not match its JSON schema."""


class InputError(ApiError, status=400):
    """The body is well-formed but means something impossible; also a bad continuation token."""


class AuthenticationFailed(ApiError, status=401):
    """Credentials were given and do not hold (contract 11.7)."""


class InsufficientScopes(ApiError, status=403):
    """The caller's scopes do not satisfy the expression that the endpoint needs."""


class ResourceNotFound(ApiError, status=404):
    """There is no such task, run, group, worker, …"""


class RequestConflict(ApiError, status=409):
    """The call contradicts the present state and can never succeed as it is."""


class ResourceExpired(ApiError, status=410):
    """The artifact has been there and its time is over."""


class LengthRequired(ApiError, status=411):
    """The request comes in chunks, or needs a body and states no length: the Functions host would hand over no body."""


class InputTooLarge(ApiError, status=413):
    """The request is larger than the limit."""


class InternalServerError(ApiError, status=500):
    """A defect of ours; the message carries nothing but an incident id."""


class ServiceUnavailable(ApiError, status=503):
    """A dependency failed or contention did not end: the same call may be sent again and repairs."""

    retry_after = "2"


class CallAgain(ApiError, status=503):
    """There is work for a worker that waits: public clients repeat the call at once (contract 5.1)."""

    retry_after = "0"
    outcome = "told"
