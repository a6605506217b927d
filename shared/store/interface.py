"""What the use-cases ask of Azure Storage: tables with entity-group transactions, queues with receipts, blobs.
`connection` implements it, and the tests' in-memory twin, which a differential test keeps equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import NotRequired, Protocol, TypedDict, Unpack

from shared.base.errors import ServiceError
from shared.base.frozen import dataclass

Value = str | int | bool | bytes
"""A property of an entity. Times are stored as text (contract's format), so that every digit is kept."""


class StorageUnavailable(ServiceError):
    """A storage request failed for a reason that may pass (throttling, time-out, no connection), after retries."""


class StorageRefused(StorageUnavailable):
    """Storage refuses the request (401, 403, and other answers that no retry changes): access is missing, or the
    request is never valid. API callers see no difference to StorageUnavailable, but code that retries by itself must
    not do so for ever."""


class Refusal(Enum):
    """The reasons for which a transaction is refused."""

    MISSING = "missing"
    """The row to merge or delete does not exist (404)."""
    EXISTS = "exists"
    """The row to create exists (409)."""
    STALE = "stale"
    """The row has another ETag (412)."""


class TransactionRefused(ServiceError):
    """An entity-group transaction was refused and wrote nothing. `index` names the operation that failed."""

    def __init__(self, index: int, refusal: Refusal) -> None:
        super().__init__(f"operation {index}: {refusal.value}")
        self.index = index
        self.refusal = refusal


class ReceiptLost(ServiceError):
    """The message is gone, or somebody else has taken it since (404 MessageNotFound, 400 PopReceiptMismatch)."""


class BlobMissing(ServiceError):
    """There is no such blob."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One entity as read. `etag` and `timestamp` (server time of the last write) come from the table."""

    partition: str
    key: str
    values: Mapping[str, Value]
    etag: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class Create:
    """Inserts a row that must not exist yet."""

    key: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Merge:
    """Overwrites the named properties of a row that must exist; with `etag`, only while it is unchanged."""

    key: str
    values: Mapping[str, Value]
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces a row that must exist; with `etag`, only while it is unchanged."""

    key: str
    values: Mapping[str, Value]
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Upsert:
    """Inserts or replaces a row, whatever is there."""

    key: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a row that must exist; with `etag`, only while it is unchanged."""

    key: str
    etag: str | None = None


Operation = Create | Merge | Replace | Upsert | Delete

MAX_OPERATIONS = 100
"""The most operations that an entity-group transaction may hold."""

MAX_PAGE = 1000
"""The most rows, or paths, that one request reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Rows in key order. `resume` is the key at which to continue (inclusive), None at the end of the range. Azure may
    end a page early, even an empty one."""

    rows: Sequence[Row]
    resume: str | None
    is_of_one_moment: bool = True
    """Whether the page is a snapshot of one moment. It is not if an empty page had to be followed up."""


class Tables(Protocol):
    """Azure Tables. Partition and row keys must be legal already (see `keys`). Every call may raise
    StorageUnavailable."""

    async def get_row(self, table: str, partition: str, key: str) -> Row | None:
        """Returns one row, or None."""

    async def query(
        self,
        table: str,
        partition: str,
        *,
        start: str,
        end: str,
        limit: int = MAX_PAGE,
        select: Sequence[str] | None = None,
    ) -> Page:
        """Returns one page (at most `limit` ≤ 1000 rows, one request) of the rows with start ≤ key < end, in key order.
        `select` restricts the properties that are sent (keys, ETag and timestamp always come)."""

    async def transact(self, table: str, partition: str, operations: Sequence[Operation]) -> list[str]:
        """Carries out all of 1..100 operations on distinct rows of one partition, or nothing. Returns new ETags ("" if
        deleted). One operation is sent as a plain request, more as an entity-group transaction: one request either way.
        Raises TransactionRefused; ValueError for what Azure would refuse (sizes, counts, keys)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """Identifies a received message for a move or a removal: its id, its latest pop receipt, and when it becomes
    visible."""

    message_id: str
    pop_receipt: str
    visible: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message as taken (or peeked: then `receipt.pop_receipt` is empty)."""

    receipt: Receipt
    text: str
    inserted: datetime
    dequeue_count: int


class Queues(Protocol):
    """Azure Queues. Texts are sent as they are; TTL is always infinite; visibility is at most 7 days (in seconds).
    Every call may raise StorageUnavailable."""

    async def create_queue(self, queue: str) -> None:
        """Makes the queue if it does not exist. Raises StorageUnavailable also while it is being deleted."""

    async def drop(self, queue: str) -> None:
        """Deletes a queue with its messages, if it exists. For up to a minute it cannot be made again."""

    async def put_message(self, queue: str, text: str, *, visible_in: float = 0) -> Receipt:
        """Adds a message that stays hidden for `visible_in` seconds; a missing queue is made first. Raises
        StorageUnavailable also while the queue is being deleted; ValueError (text over 64 KiB, delay over 7 days)."""

    async def get_messages(self, queue: str, *, count: int = 1, hidden_for: float) -> list[Message]:
        """Takes up to `count` ≤ 32 visible messages and hides them (for a second at least). A missing one is empty."""

    async def peek(self, queue: str, *, count: int = 1) -> list[Message]:
        """Looks at up to `count` ≤ 32 visible messages without taking them."""

    async def length(self, queue: str) -> int:
        """Returns about how many messages a queue holds, hidden ones too; 0 for a missing queue."""

    async def update(self, queue: str, receipt: Receipt, *, visible_in: float, text: str | None = None) -> Receipt:
        """Moves a message in time, with a new text if given; only the new receipt counts from now on. Raises
        ReceiptLost."""

    async def delete_message(self, queue: str, receipt: Receipt) -> None:
        """Removes a message. Raises ReceiptLost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobProperties:
    """The properties of a committed blob. `length` is in bytes."""

    length: int
    content_type: str
    content_encoding: str
    content_disposition: str
    etag: str


class BlobHeaders(TypedDict):
    """The headers with which a blob is served, those that are not set left out."""

    content_type: str
    content_encoding: NotRequired[str]
    content_disposition: NotRequired[str]


class Blobs(Protocol):
    """Azure Blob Storage, block blobs only. Every call may raise StorageUnavailable."""

    async def upload(
        self, container: str, path: str, content: bytes, *, only_new: bool = False, **headers: Unpack[BlobHeaders]
    ) -> bool:
        """Writes a blob, whatever is there; a missing container is made first. With `only_new`, writes only if no blob
        exists, and returns False if one does; an earlier try of this request may have written it."""

    async def download(self, container: str, path: str, *, start: int = 0, limit: int | None = None) -> bytes:
        """Returns the bytes of a blob from `start` on, at most `limit` of them. Raises BlobMissing, also for content
        that cannot be read: archived, or encrypted with a key of the writer's own."""

    async def properties(self, container: str, path: str) -> BlobProperties | None:
        """Returns the properties of a committed blob; None when there is none. Uncommitted blocks do not count, nor
        does a blob of another type than this service's, or one that is encrypted with a key of its writer's."""

    async def put_block(self, container: str, path: str, block_id: str, content: bytes) -> None:
        """Writes one block, which is invisible until it is committed."""

    async def commit_blocks(
        self,
        container: str,
        path: str,
        block_ids: Sequence[str],
        *,
        only_new: bool = False,
        **headers: Unpack[BlobHeaders],
    ) -> bool:
        """Commits the named blocks, each as last uploaded, as the blob. Returns False if a block is missing, or if
        something else is in the blob's place. With `only_new`, uses only blocks that were uploaded since the last
        commit, so that a blob without new content keeps its headers. A lease on the blob is broken."""

    async def set_headers(
        self, container: str, path: str, *, etag: str | None = None, **headers: Unpack[BlobHeaders]
    ) -> bool:
        """Changes the headers of a blob; returns False when it is gone, or no longer has the ETag that is given. A
        lease that somebody holds on the blob is broken."""

    async def delete_blob(self, container: str, path: str) -> None:
        """Removes a blob with its snapshots, also one that is leased; nothing happens when it is not there."""

    async def list_paths(self, container: str, prefix: str, *, limit: int = MAX_PAGE) -> list[str]:
        """Returns up to `limit` paths that start with `prefix`, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedQueue:
    """Access to one queue: its URL without query, and the query string that authorises."""

    url: str
    sas: str


class Access(Protocol):
    """Signs URLs for those who have no credentials of the account. Each signing may raise StorageUnavailable."""

    async def process_queue(self, queue: str, *, start: datetime, expiry: datetime) -> SignedQueue:
        """Signs a URL that can only take and delete messages of one queue, from `start` to `expiry` (whole seconds)."""

    async def read_blob(
        self,
        container: str,
        path: str,
        *,
        start: datetime,
        expiry: datetime,
        content_type: str,
        content_disposition: str,
    ) -> str:
        """Signs a URL to read one blob from `start` to `expiry` (whole seconds); responses to it carry these headers.
        Their encoding is the blob's own, as it may change with its content."""

    async def write_blob(self, container: str, path: str, *, start: datetime, expiry: datetime) -> str:
        """Signs a URL to write one blob, whole or in blocks, from `start` to `expiry` (whole seconds). A missing
        container is made."""

    def plain_url(self, container: str, path: str) -> str:
        """Returns a blob's URL without a signature: of use only where the container is public."""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The three services of one account, and access to them for others."""

    tables: Tables
    queues: Queues
    blobs: Blobs
    access: Access
