"""What Azure Storage refuses, checked before a request is sent: the emulator accepts some of it (design 8). Everything
here is pure and raises ValueError with the reason."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _in_quotes  # what json.dumps calls for a text
from urllib.parse import quote

from shared.store.interface import MAX_OPERATIONS, MAX_PAGE, Delete, Merge, Operation, Replace, Value

MAX_KEY = 512
"""The most characters (UTF-16 units) of a partition key or a row key."""
MAX_PROPERTIES = 252
"""The most properties of an entity, without its keys and timestamp."""
MAX_TEXT = 32_768
"""The most characters (UTF-16 units) of a text property."""
MAX_BINARY = 65_536
"""The most bytes of a binary property."""
MAX_ENTITY = 1 << 20
"""The most bytes of an entity with all names and values, both as Azure stores it and as the JSON of the request."""
MAX_TRANSACTION = 4 << 20
"""The most bytes of the body of an entity-group transaction."""
MAX_MESSAGE = 65_536
"""The most bytes of a message's text in UTF-8."""
MAX_DELAY = 7 * 24 * 3600
"""The most seconds that a message may stay invisible."""
MAX_MESSAGES = 32
"""The most messages of one Get or Peek."""
MAX_BLOCK_ID = 64
"""The most bytes of a block's id before base64."""

_OPERATION_OVERHEAD = 1024
"""Bytes of the headers and boundaries around one operation of a transaction, rounded up."""
_PROPERTY_OVERHEAD = 40
"""Bytes of quotes, punctuation and type annotation around a property's name and value in JSON, rounded up."""
_MOST_OF_CHARACTER = 12
"""The most bytes of one character in JSON, or percent-encoded."""
_MOST_OF_NUMBER = 20
"""The most bytes of a number in JSON."""
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_ILLEGAL_IN_KEY = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")
_ILLEGAL_IN_MESSAGE = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_RESERVED = frozenset({"PartitionKey", "RowKey", "Timestamp"})


def fits_int32(value: int) -> bool:
    """Returns whether a number is stored as Edm.Int32 (beyond: Edm.Int64)."""
    return value in _INT32


def check_key(key: str) -> None:
    """Checks a partition or row key: at most 512 characters, no `/ # ?`, backslash or control character."""
    if (len(key) > MAX_KEY or not key.isascii()) and (units := _utf16_units(key)) > MAX_KEY:
        raise ValueError(f"a key has {units} characters, more than {MAX_KEY}")
    if found := _ILLEGAL_IN_KEY.search(key):
        raise ValueError(f"a key holds {found[0]!r}, which Azure Tables forbids")


def check_values(partition: str, key: str, values: Mapping[str, Value]) -> int:
    """Checks names, types, number and sizes of the properties of one entity. Returns a cheap upper bound of its
    `entity_size` with the keys in a URL. The bound assumes two UTF-16 units for each character, and six bytes of JSON
    for each unit. Only rows above it, which are rare, are measured exactly."""
    if len(values) > MAX_PROPERTIES:
        raise ValueError(f"an entity has {len(values)} properties, more than {MAX_PROPERTIES}")
    at_most = 2 * _PROPERTY_OVERHEAD + _MOST_OF_CHARACTER * 2 * (len(partition) + len(key) + 2)
    for name, value in values.items():
        if not _can_name_a_property(name):
            raise ValueError(f"{name!r} cannot name a property")
        at_most += _PROPERTY_OVERHEAD + 2 * len(name)
        match value:
            case str():
                if (len(value) > MAX_TEXT or not value.isascii()) and (units := _utf16_units(value)) > MAX_TEXT:
                    raise ValueError(f"property {name} has {units} characters, more than {MAX_TEXT}")
                at_most += _MOST_OF_CHARACTER * (len(value) + 1)
            case bytes():
                if len(value) > MAX_BINARY:
                    raise ValueError(f"property {name} has {len(value)} bytes, more than {MAX_BINARY}")
                at_most += 2 * len(value) + 4
            case int():
                if value not in _INT64:
                    raise ValueError(f"property {name} is a number of more than 64 bits")
                at_most += _MOST_OF_NUMBER
            case _:
                raise ValueError(f"property {name} is a {type(value).__name__}, which is not stored")
    if at_most > MAX_ENTITY:
        size = entity_size(partition, key, values)
        if size > MAX_ENTITY:
            raise ValueError(f"an entity has {size} bytes, more than {MAX_ENTITY}")
    return at_most


def check_transaction(partition: str, operations: Sequence[Operation]) -> None:
    """Checks all that can be known of a transaction before it is sent."""
    if not 1 <= len(operations) <= MAX_OPERATIONS:
        raise ValueError(f"a transaction has {len(operations)} operations, not 1 to {MAX_OPERATIONS}")
    check_key(partition)
    keys = set()
    at_most = 0
    for operation in operations:
        check_key(operation.key)
        if operation.key in keys:
            raise ValueError(f"a transaction names the row {operation.key!r} twice")
        keys.add(operation.key)
        if isinstance(operation, Merge | Replace | Delete) and operation.etag == "":
            raise ValueError(f"the row {operation.key!r} is asked for by an empty ETag")
        values = {} if isinstance(operation, Delete) else operation.values
        at_most += _OPERATION_OVERHEAD + check_values(partition, operation.key, values)
    if len(operations) > 1 and at_most > MAX_TRANSACTION:
        size = transaction_size(partition, operations)
        if size > MAX_TRANSACTION:
            raise ValueError(f"a transaction has about {size} bytes, more than {MAX_TRANSACTION}")


def transaction_size(partition: str, operations: Sequence[Operation]) -> int:
    """Returns an upper bound of the bytes of a transaction's body."""
    return sum(
        _OPERATION_OVERHEAD
        + len(in_url(partition))
        + len(in_url(operation.key))
        + (0 if isinstance(operation, Delete) else entity_size(partition, operation.key, operation.values))
        for operation in operations
    )


@lru_cache(maxsize=1024)  # a partition stands in each row of a transaction, and in the answer
def in_url(key: str) -> str:
    """Returns a key, encoded for the quotes in an entity's URL."""
    return quote(key.replace("'", "''"), safe="")


def entity_size(partition: str, key: str, values: Mapping[str, Value]) -> int:
    """Returns how many bytes an entity has towards `MAX_ENTITY`, as Azure stores it or as JSON, whichever is more."""
    stored = 4 + 2 * (_utf16_units(partition) + _utf16_units(key))
    as_json = len(_in_quotes(partition)) + len(_in_quotes(key)) + 2 * _PROPERTY_OVERHEAD
    for name, value in values.items():
        match value:
            case bool():
                sizes = 1, len(str(value))
            case int():
                sizes = 4 if fits_int32(value) else 8, len(str(value))
            case str():
                sizes = 4 + 2 * _utf16_units(value), len(_in_quotes(value))
            case bytes():
                sizes = 4 + len(value), (len(value) + 2) // 3 * 4
        stored += 8 + 2 * len(name) + sizes[0]
        as_json += _PROPERTY_OVERHEAD + 2 * len(name) + sizes[1]
    return max(stored, as_json)


def check_page(limit: int) -> None:
    """Checks the number of rows asked of a query."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"a page of {limit} rows, not 1 to {MAX_PAGE}")


def check_text(text: str) -> None:
    """Checks the text of a message: not empty, at most 64 KiB of UTF-8, nothing that XML cannot carry."""
    if not text:
        raise ValueError("a message has no text")
    if len(text.encode()) > MAX_MESSAGE:
        raise ValueError(f"a message has {len(text.encode())} bytes, more than {MAX_MESSAGE}")
    if found := _ILLEGAL_IN_MESSAGE.search(text):
        raise ValueError(f"a message holds {found[0]!r}, which XML cannot carry")


def whole_delay(seconds: float) -> int:
    """Returns a delay in whole seconds, rounded up: nothing is visible early. Raises ValueError beyond 7 days."""
    if not 0 <= seconds <= MAX_DELAY:
        raise ValueError(f"a delay of {seconds} s, not 0 to {MAX_DELAY}")
    return math.ceil(seconds)


def check_count(count: int) -> None:
    """Checks the number of messages asked of a Get or a Peek."""
    if not 1 <= count <= MAX_MESSAGES:
        raise ValueError(f"{count} messages at once, not 1 to {MAX_MESSAGES}")


def check_block_id(block_id: str) -> None:
    """Checks the id of a block, before base64: 1 to 64 bytes."""
    if not 1 <= len(block_id.encode()) <= MAX_BLOCK_ID:
        raise ValueError(f"a block id has {len(block_id.encode())} bytes, not 1 to {MAX_BLOCK_ID}")


@lru_cache(maxsize=1024)
def _can_name_a_property(name: str) -> bool:
    return _PROPERTY_NAME.fullmatch(name) is not None and name not in _RESERVED


def _utf16_units(text: str) -> int:
    """Returns the number of UTF-16 units. Raises UnicodeEncodeError, a ValueError, for lone surrogates."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
