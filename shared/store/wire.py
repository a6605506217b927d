"""Sends the hot requests, which are encoded by hand. Signs, retries and counts them without the SDKs' pipelines.

`table_requests` and `azure_queues` write these requests and read their answers; all others are the SDKs', on
`pipeline`. Both ways share time limits and the rules for what is tried again; each has connections of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, Protocol, Self
from urllib.parse import quote
from wsgiref.handlers import format_date_time

from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError

from shared.base.errors import ServiceError
from shared.base.frozen import dataclass
from shared.base.retrying import STORAGE_REQUEST, Retries
from shared.store import counting
from shared.store.counting import Kind
from shared.store.interface import StorageRefused, StorageUnavailable


class _Escapes(dict[int, str]):
    """Table of what stands in a URL for each character. It is filled as characters are first met, which is quicker than
    to quote each text anew."""

    def __init__(self, safe: str) -> None:
        self._safe = safe

    def __missing__(self, code: int) -> str:
        escaped = quote(chr(code), safe=self._safe)
        if code < 128:
            self[code] = escaped
        return escaped


_IN_PATH = _Escapes("!$&'()*,;=@:")
_IN_QUERY = _Escapes("/!$'()*,@:")


def in_path(text: str) -> str:
    """Escapes a text in a path. The address is signed, so what is not escaped are characters that every client and
    server on the way encodes alike."""
    return text.translate(_IN_PATH)


def in_query(text: str) -> str:
    """Escapes a text in the value of a query option, as `in_path` does in a path."""
    return text.translate(_IN_QUERY)


USER_AGENT = "taskcluster-queue-on-azure"
REFUSED = frozenset({400, 404, 409, 412, 413, 416})
"""HTTP statuses that mean something to the adapters. Others that are no success raise StorageUnavailable."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """The longest duration of a request in seconds, and how often it is tried again. `total` covers all tries of a
    small request, their pauses, and the wait for a free connection; a transfer of bytes gets a second more for every
    `bytes_per_second` (a floor for slow networks)."""

    connect: float = 3
    read: float = 5
    """Seconds until the first bytes of an answer. For hot requests, whose answers are small, until the whole answer."""
    total: float = 8
    retries: Retries = STORAGE_REQUEST
    bytes_per_second: int = 1 << 20
    jitter: Callable[[], float] = random.random
    """Returns a random number in [0, 1)."""

    def pause(self, number: int) -> float:
        """Returns the seconds before a retry, numbered from 0. A Retry-After changes nothing: `total` is shorter."""
        return self.retries.pause(number, self.jitter())


class Refused(ServiceError):
    """The service's answer was no. Adapters give it a meaning; where it has none, it is a defect of ours. `status` is
    HTTP's, `code` the service's own word, `index` the operation of a transaction that it is about."""

    def __init__(self, status: int, code: str, index: int = 0) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.index = index


@dataclass(frozen=True, slots=True)
class StorageEndpoint:
    """Address of a service: scheme and host, and the path of the account, which emulators have."""

    origin: str
    base: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Reads the URL of a service, which has no slash at its end."""
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        return cls(f"{scheme}://{host}", slash + path)


@dataclass(slots=True)
class Request:
    """A request as it is sent, except for the date and the authorisation of each try, which go into `headers`."""

    kind: Kind
    method: str
    endpoint: StorageEndpoint
    resource: str
    """The path below the endpoint, percent-encoded; it is sent and signed as it stands."""
    headers: dict[str, str]
    content: bytes = b""
    query: str = ""
    """The query string without the question mark, percent-encoded."""
    statuses: Callable[[bytes], list[int]] | None = None
    """Finds the HTTP statuses inside the answer to a request that consists of several."""
    is_named_in: Callable[[bytes], bool] | None = None
    """Whether the content of a successful answer is about what was asked for; None if such answers do not tell."""

    @property
    def path(self) -> str:
        """Returns the whole path."""
        return self.endpoint.base + self.resource

    @property
    def url(self) -> str:
        """Returns the whole address."""
        url = f"{self.endpoint.origin}{self.endpoint.base}{self.resource}"
        return f"{url}?{self.query}" if self.query else url


@dataclass(frozen=True, slots=True)
class StorageAnswer:
    """An answer, read to its end."""

    status: int
    headers: Mapping[bytes, bytes]
    """The headers by their names in lower case. Few of them are ever read, so only those are decoded."""
    content: bytes

    def header(self, name: str) -> str | None:
        """Returns the value of a header, if the answer has it. `name` is in lower case."""
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")


REQUEST_ID = "x-ms-client-request-id"
"""Header with the id of one try of a request. The service repeats it in its answer."""
_PROCESS = uuid.uuid4().hex[:20]
_numbers = itertools.count()


class NoAnswer(ServiceError):
    """There was no connection, or no answer that is whole, can be read and belongs to the request: the outcome of the
    request is unknown. The text says which, and names no address."""


class Disconnected(NoAnswer):
    """The connection ended before the whole answer; `has_begun`: some of it had come."""

    def __init__(self, *, has_begun: bool) -> None:
        super().__init__(f"Disconnected ({'within' if has_begun else 'before'} the answer)")
        self.has_begun = has_begun


_PASSING = (NoAnswer, TimeoutError, ServiceRequestError, ServiceResponseError)
"""Transient failures: no connection or no whole answer, also from the service that issues tokens."""
FAILURES = (NoAnswer, AzureError, TimeoutError)


def is_answer_to(request: Request, answer: StorageAnswer) -> bool:
    """Returns whether an answer belongs to this try of the request. A connection may hold an unread answer to an
    abandoned request, or an error page of a proxy. An answer repeats the name of its request. Without that name, a
    refusal is the service's if it has one of its error codes, and a success if it names what was asked for."""
    if (name := answer.header(REQUEST_ID)) is not None:
        return name == request.headers.get(REQUEST_ID)
    if answer.status >= 300:
        return answer.status not in REFUSED or bool(_code(answer))
    return request.is_named_in is not None and request.is_named_in(answer.content)


class Sender(Protocol):
    """Sends requests over connections, within the time limits of one try."""

    async def exchange(self, request: Request) -> StorageAnswer:
        """Sends one try and returns the complete answer to this very request. Raises NoAnswer."""

    async def close(self) -> None:
        """Ends the connections."""


class Authorisation(Protocol):
    """Shows a service who asks: by a signature, or by a token."""

    async def authorise(self, request: Request) -> None:
        """Sets the header. Raises AzureError without a token, ValueError for a token that would go over plain HTTP."""

    async def renewed(self, answer: StorageAnswer) -> bool:
        """Returns whether a request that was answered with 401 is to be authorised and sent once more. Raises
        AzureError."""


Watch = Callable[[str, str, str], AbstractContextManager[Callable[[int], None]]]
"""Function that sees each request once, whatever retries follow. It takes service, method and URL, and yields a
function that takes the status."""


@dataclass(frozen=True, eq=False)
class Wire:
    """Sends requests to one service of an account: "table" or "queue"."""

    _service: str
    _exchange: Sender
    _authorisation: Authorisation
    _patience: Patience
    _watch: Watch | None = None

    async def send(self, request: Request) -> StorageAnswer:
        """Returns the answer of a request that succeeded. Raises Refused, StorageUnavailable, StorageRefused.

        A request is retried if it failed for a reason that may pass: no connection, no answer, 408, 429, 5xx. A write
        whose answer was lost is sent again as well: its repeat may be refused (409, 412, 404) by the first try's own
        effect. Callers tell by an operation id in the row (design 5)."""
        begun = counting.begin(request.kind, request.path)
        try:
            if self._watch is None:
                answer, passing = await self._try(request)
            else:
                with self._watch(self._service, request.method, request.url) as note:
                    answer, passing = await self._try(request)
                    note(answer.status)
        except FAILURES as error:
            raise failure_of(error) from error
        finally:
            counting.end(begun)
        if answer.status in REFUSED and not passing:
            raise Refused(answer.status, _code(answer))
        if passing or answer.status >= 300:
            raise _failure(_code(answer) or "HTTP", passing or answer.status)
        return answer

    async def _try(self, request: Request) -> tuple[StorageAnswer, int]:
        """Sends tries until one is answered, and returns the last answer with its first status of a transient failure
        (408, 429, 5xx), or 0."""
        time_of = asyncio.get_running_loop().time
        end = time_of() + self._patience.total
        for number in range(self._patience.retries.tries - 1):
            try:
                answer = await self._try_once(request, end)
                if not _passing_status(request, answer):
                    return answer, 0
            except _PASSING:
                if time_of() >= end:
                    raise
                # Otherwise the next try shows it; the last one, below, is not caught.
            await asyncio.sleep(min(self._patience.pause(number), end - time_of()))
            counting.retried()
        answer = await self._try_once(request, end)
        return answer, _passing_status(request, answer)

    async def _try_once(self, request: Request, end: float) -> StorageAnswer:
        """Sends one try within one time limit, whatever comes in meanwhile. Raises TimeoutError, too."""
        now = asyncio.get_running_loop().time()
        if now >= end:
            raise TimeoutError
        async with asyncio.timeout_at(min(now + self._patience.read, end)):
            answer = await self._authorised(request)
            if answer.status == 401 and await self._authorisation.renewed(answer):
                return await self._authorised(request)
            return answer

    async def _authorised(self, request: Request) -> StorageAnswer:
        request.headers["x-ms-date"] = _date(int(time.time()))
        request.headers[REQUEST_ID] = f"{_PROCESS}{next(_numbers):012x}"  # no other try of any request has this name
        await self._authorisation.authorise(request)
        return await self._exchange.exchange(request)


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return format_date_time(second)


@contextmanager
def unavailable() -> Iterator[None]:
    """Turns the error of a failed request into StorageUnavailable, or into StorageRefused if an answer came that will
    not change."""
    try:
        yield
    except FAILURES as error:
        raise failure_of(error) from error


def failure_of(error: Exception) -> StorageUnavailable:
    """Returns what callers get for the error of a failed request. The text holds no URL and no secret."""
    if isinstance(error, NoAnswer):
        return StorageUnavailable(str(error))
    return _failure(type(error).__name__, getattr(error, "status_code", None))


def may_pass(status: int) -> bool:
    """Returns whether an HTTP status means a transient failure."""
    return status in {408, 429} or (status >= 500 and status not in {501, 505})


def _failure(what: str, status: int | None) -> StorageUnavailable:
    kind = StorageRefused if status and not may_pass(status) else StorageUnavailable
    return kind(f"{what} {status or ''}".strip())


def _passing_status(request: Request, answer: StorageAnswer) -> int:
    """Returns the first status of an answer that means a transient failure, or 0."""
    if may_pass(answer.status):
        return answer.status
    return next(filter(may_pass, request.statuses(answer.content) if request.statuses else ()), 0)


def _code(answer: StorageAnswer) -> str:
    """Returns the service's word for an error. Azure Tables has it in a JSON body, without a header."""
    return _word(answer.header, lambda: json.loads(answer.content))


def _word(header: Callable[[str], str | None], body: Callable[[], Any]) -> str:
    try:
        return header("x-ms-error-code") or str(body()["odata.error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""


REFUSALS: Mapping[int, Callable[[Any], Refused]] = dict.fromkeys(
    REFUSED, lambda response: Refused(response.status_code, _word(response.headers.get, response.json))
)
"""The `error_map` of every SDK call: the SDKs' own errors cost a second parse, and hide the 404 of a delete."""
