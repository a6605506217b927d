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
    """What is logged and counted in place of the status, of an answer that is neither a refusal nor a failure."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MalformedPayload(ApiError):
    """The body is not JSON, or its content type is not."""

    code = "MalformedPayload"
    status = 400


class InvalidRequestArguments(ApiError):
    """A URL parameter or a query parameter does not match its pattern."""

    code = "InvalidRequestArguments"
    status = 400


class InputValidationError(ApiError):
    """The body does not match its JSON schema."""

    code = "InputValidationError"
    status = 400


class InputError(ApiError):
    """The body is well-formed but means something impossible; also a bad continuation token."""

    code = "InputError"
    status = 400


class AuthenticationFailed(ApiError):
    """Credentials were given and do not hold (contract 11.7)."""

    code = "AuthenticationFailed"
    status = 401


class InsufficientScopes(ApiError):
    """The caller's scopes do not satisfy the expression that the endpoint needs."""

    code = "InsufficientScopes"
    status = 403


class ResourceNotFound(ApiError):
    """There is no such task, run, group, worker, …"""

    code = "ResourceNotFound"
    status = 404


class RequestConflict(ApiError):
    """The call contradicts the present state and can never succeed as it is."""

    code = "RequestConflict"
    status = 409


class ResourceExpired(ApiError):
    """The artifact has been there and its time is over."""

    code = "ResourceExpired"
    status = 410


class LengthRequired(ApiError):
    """The request comes in chunks, or needs a body and states no length: the Functions host would hand over no body."""

    code = "LengthRequired"
    status = 411


class InputTooLarge(ApiError):
    """The request is larger than the limit."""

    code = "InputTooLarge"
    status = 413


class InternalServerError(ApiError):
    """A defect of ours; the message carries nothing but an incident id."""

    code = "InternalServerError"
    status = 500


class ServiceUnavailable(ApiError):
    """A dependency failed or contention did not end: the same call may be sent again and repairs."""

    code = "ServiceUnavailable"
    status = 503
    retry_after = "2"


class CallAgain(ApiError):
    """There is work for a worker that waits: public clients repeat the call at once (contract 5.1)."""

    code = "CallAgain"
    status = 503
    retry_after = "0"
    outcome = "told"
