"""Everything that a deployment has stored, as anybody with the account's key sees it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack
from dataclasses import dataclass

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from shared.store import keys

OF_THE_HOST = "azure-webjobs-hosts"
"""The container of the host's locks and timers, which change by themselves."""
_SETTLE_SECONDS = 30.0
_QUIET_SECONDS = 2.5
"""Seconds without a change after which nothing goes on: the host looks at idle queues every 2 s."""


@dataclass(frozen=True)
class Stored:
    """What is stored, by its place, without times of writes: a row that is written again is the same row."""

    contents: Mapping[str, str]

    def changes(self, later: Stored) -> list[str]:
        """Returns what differs in a later reading."""
        places = sorted(self.contents.keys() | later.contents.keys())
        return [
            f"{place}: {self.contents.get(place)} became {later.contents.get(place)}"
            for place in places
            if self.contents.get(place) != later.contents.get(place)
        ]

    def naming(self, words: Set[str]) -> list[str]:
        """Returns the places where one of these words occurs."""
        stored = ((place, f"{place} {content}") for place, content in self.contents.items())
        return [place for place, text in stored if any(word in text for word in words)]


class Storage:
    """An account that can be looked through; a context manager."""

    def __init__(self, connection_string: str) -> None:
        self._cleanup = ExitStack()
        enter = self._cleanup.enter_context
        self._tables = enter(TableServiceClient.from_connection_string(connection_string))
        self._queues = enter(QueueServiceClient.from_connection_string(connection_string))
        self._blobs = enter(BlobServiceClient.from_connection_string(connection_string))

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def look(self) -> Stored:
        """Returns what is stored now."""
        return Stored(dict([*self._rows(), *self._messages(), *self._files()]))

    def settled(self) -> Stored:
        """Returns what is stored once nothing happens in the background; fails if something always does."""
        give_up = time.monotonic() + _SETTLE_SECONDS
        seen, since = self.look(), time.monotonic()
        while time.monotonic() - since < _QUIET_SECONDS:
            time.sleep(0.2)
            now = self.look()
            if now != seen:
                assert time.monotonic() < give_up, seen.changes(now)
                seen, since = now, time.monotonic()
        return seen

    def _rows(self) -> Iterator[tuple[str, str]]:
        for table in self._tables.list_tables():
            if table.name == keys.HEALTH:
                continue  # a timer notes by itself what waits
            for row in self._tables.get_table_client(table.name).list_entities():
                if row["RowKey"] == "cursor":
                    continue  # how far the expiry timer has come by itself
                values = {name: row[name] for name in sorted(row)}
                yield f"table {table.name}: {row['PartitionKey']}, {row['RowKey']}", repr(values)

    def _messages(self) -> Iterator[tuple[str, str]]:
        for queue in self._queues.list_queues():
            client = self._queues.get_queue_client(queue.name)
            count = client.get_queue_properties().approximate_message_count
            visible = sorted(message.content for message in client.peek_messages(32))
            yield f"queue {queue.name}", repr((count, visible))

    def _files(self) -> Iterator[tuple[str, str]]:
        for container in self._blobs.list_containers():
            if container.name == OF_THE_HOST:
                continue
            for blob in self._blobs.get_container_client(container.name).list_blobs():
                yield f"blob {container.name}: {blob.name}", repr((blob.size, blob.etag))
