"""Two storages side by side, and steps that are done on both: the machinery of the differential tests."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from shared.store.connection import AzureStorage
from shared.store.interface import (
    BlobMissing,
    BlobProperties,
    Create,
    Delete,
    Merge,
    Message,
    Operation,
    Page,
    Receipt,
    ReceiptLost,
    Replace,
    Row,
    Storage,
    TransactionRefused,
    Upsert,
    Value,
)
from tests.parts.twin import MemoryStorage
from tools.local.azurite import Azurite

_UNKNOWN_ETAG = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""
_PAUSE = 0.002


@dataclass(frozen=True)
class _Written:
    """A row's new ETag. Azurite may give the same to two rows of a transaction, so it means nothing without the key."""

    key: str
    etag: str


@dataclass
class Side:
    """One of the two, with what it has answered so far: names for ETags, and receipts to be used later."""

    storage: Storage
    partition: str
    queue: str
    container: str
    etags: dict[str, list[str]] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)

    def etag(self, key: str, number: int | None) -> str | None:
        """Returns an ETag that this row has had or has, one that no row has, or none."""
        if number is None:
            return None
        known = self.etags.get(key)
        return known[number % len(known)] if known else _UNKNOWN_ETAG

    def receipt(self, number: int) -> Receipt:
        """Returns a receipt seen earlier, or one that was never given."""
        if self.receipts:
            return self.receipts[number % len(self.receipts)]
        return Receipt(message_id=str(uuid.UUID(int=0)), pop_receipt="AAAA", visible=datetime(2026, 1, 1, tzinfo=UTC))

    def comparable(self, answer: object) -> object:
        """Returns the answer with everything that the service made up replaced by its first appearance."""
        match answer:
            case list():
                return [self.comparable(item) for item in answer]
            case Page(rows=rows, resume=resume):
                return [self.comparable(row) for row in rows], resume
            case Row(key=key, values=values, etag=etag, timestamp=timestamp):
                assert timestamp.tzinfo is not None
                return (
                    key,
                    {name: (type(value).__name__, value) for name, value in values.items()},
                    self._seen(key, etag),
                )
            case Message(receipt=receipt, text=text, dequeue_count=count):
                return text, count, self.comparable(receipt)
            case Receipt():
                assert answer.visible.tzinfo is not None
                if answer.pop_receipt:
                    self.receipts.append(answer)
                same = [old.message_id for old in self.receipts].index(answer.message_id) if self.receipts else None
                return same, bool(answer.pop_receipt)
            case BlobProperties():
                return replace(answer, etag="")
            case _Written(key=key, etag=etag):
                return self._seen(key, etag) if etag else "gone"
        return answer

    def _seen(self, key: str, etag: str) -> int:
        known = self.etags.setdefault(key, [])
        if etag not in known:
            known.append(etag)
        return known.index(etag)


@dataclass(frozen=True)
class Step:
    """A step that can be read in a failure: the name of one of `_METHODS`, and its arguments."""

    name: str
    arguments: tuple[Any, ...]

    async def __call__(self, side: Side) -> object:
        return await _METHODS[self.name](side, *self.arguments)


async def _answer(side: Side, step: Step) -> object:
    try:
        return side.comparable(await step(side))
    except TransactionRefused as error:
        return "refused", error.index, error.refusal
    except (ReceiptLost, BlobMissing, ValueError) as error:
        return type(error).__name__


async def compare(azurite: Azurite, steps: Sequence[Step]) -> None:
    """Does each step on both sides, and compares the answers."""
    name = uuid.uuid4().hex
    memory = MemoryStorage()
    async with AzureStorage.from_connection_string(azurite.connection_string) as account:
        real = Side(account.storage, name, f"q-{name}", f"c-{name}")
        twin = Side(memory.storage, name, f"q-{name}", f"c-{name}")
        for number, step in enumerate(steps):
            await asyncio.sleep(_PAUSE)
            memory.clock.advance(_PAUSE)
            expected = await _answer(real, step)
            assert await _answer(twin, step) == expected, f"step {number}: {step}"
            assert await _everything(twin, step) == await _everything(real, step), f"after step {number}: {step}"


async def _everything(side: Side, step: Step) -> object:
    """Returns all rows, visible messages or paths, whichever the step may have changed."""
    if step.name == "transact":
        return side.comparable(await side.storage.tables.query("Tasks", side.partition, start="", end="\uffff"))
    if step.name in {"put", "get", "update", "delete"}:
        return side.comparable(await side.storage.queues.peek(side.queue, count=32))
    if step.name in {"upload", "commit", "delete_blob"}:
        return await side.storage.blobs.list_paths(side.container, "")
    return None


_MAKE: dict[str, Callable[[str, Mapping[str, Value], str | None], Operation]] = {
    "create": lambda key, values, etag: Create(key, values),
    "upsert": lambda key, values, etag: Upsert(key, values),
    "merge": Merge,
    "replace": Replace,
    "delete": lambda key, values, etag: Delete(key, etag),
}


async def _transact(side: Side, operations: Sequence[tuple[str, str, dict[str, Value], int | None]]) -> object:
    """Carries out operations: the kind, key and values of each, and the number of an ETag that its row has had."""
    made = [_MAKE[kind](key, values, side.etag(key, number)) for kind, key, values, number in operations]
    etags = await side.storage.tables.transact("Tasks", side.partition, made)
    return [_Written(operation.key, etag) for operation, etag in zip(made, etags, strict=True)]


async def _set_headers(side: Side, path: str, content_type: str, encoding: str, only: str) -> bool:
    """Sets headers on condition of the blob's own ETag, of another one, or unconditionally."""
    found = await side.storage.blobs.properties(side.container, path) if only == "as it is" else None
    return await side.storage.blobs.set_headers(
        side.container,
        path,
        content_type=content_type,
        content_encoding=encoding,
        content_disposition="inline",
        etag=found.etag if found else '"0x0"' if only == "changed" else None,
    )


_METHODS: dict[str, Callable[..., Awaitable[object]]] = {
    "transact": _transact,
    "get_row": lambda side, key: side.storage.tables.get_row("Tasks", side.partition, key),
    "query": lambda side, start, end, limit, select: side.storage.tables.query(
        "Tasks", side.partition, start=start, end=end, limit=limit, select=select
    ),
    "put": lambda side, text, delay: side.storage.queues.put_message(side.queue, text, visible_in=delay),
    "get": lambda side, count: side.storage.queues.get_messages(side.queue, count=count, hidden_for=600),
    "peek": lambda side, count: side.storage.queues.peek(side.queue, count=count),
    "length": lambda side: side.storage.queues.length(side.queue),
    "update": lambda side, receipt, delay, text: side.storage.queues.update(
        side.queue, side.receipt(receipt), visible_in=delay, text=text
    ),
    "delete": lambda side, receipt: side.storage.queues.delete_message(side.queue, side.receipt(receipt)),
    "upload": lambda side, path, content, content_type, encoding: side.storage.blobs.upload(
        side.container,
        path,
        content,
        content_type=content_type,
        content_encoding=encoding,
        content_disposition=encoding and "inline",
    ),
    "download": lambda side, path, start, limit: side.storage.blobs.download(
        side.container, path, start=start, limit=limit
    ),
    "properties": lambda side, path: side.storage.blobs.properties(side.container, path),
    "put_block": lambda side, path, block, content: side.storage.blobs.put_block(side.container, path, block, content),
    "commit": lambda side, path, blocks, content_type, only_new: side.storage.blobs.commit_blocks(
        side.container,
        path,
        blocks,
        content_type=content_type,
        content_encoding="",
        content_disposition="attachment",
        only_new=only_new,
    ),
    "set_headers": _set_headers,
    "delete_blob": lambda side, path: side.storage.blobs.delete_blob(side.container, path),
    "list_paths": lambda side, prefix, limit: side.storage.blobs.list_paths(side.container, prefix, limit=limit),
}
