"""Azurite as the local stack starts it: the services answer, data stays or not, nothing outlives its parent."""

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueClient, QueueServiceClient

from tests.parts.local.stacks import is_running, wait
from tools.local.azurite import SERVICES, Azurite


def _queue(azurite: Azurite) -> QueueClient:
    queue = QueueServiceClient.from_connection_string(azurite.connection_string).get_queue_client(
        f"q-{uuid.uuid4().hex}"
    )
    queue.create_queue()
    return queue


def test_the_three_services_answer_todays_sdks(azurite: Azurite) -> None:
    name = f"t{uuid.uuid4().hex}"
    with TableServiceClient.from_connection_string(azurite.connection_string) as tables:
        table = tables.create_table(name)
        table.create_entity({"PartitionKey": "p", "RowKey": "r", "value": 1})
        assert table.get_entity("p", "r")["value"] == 1
        table.close()
    with BlobServiceClient.from_connection_string(azurite.connection_string) as blobs:
        container = blobs.create_container(name)
        container.upload_blob("a/b", b"content").close()
        assert container.download_blob("a/b").readall() == b"content"
        container.close()
    with _queue(azurite) as queue:
        sent = queue.send_message("hello")
        received = queue.receive_message()
        assert received is not None
        assert received.id == sent.id


def test_messages_come_once_each_in_order_after_array_updates(azurite: Azurite) -> None:
    """Each message is received once and in order when messages are taken 32 at a time, which updates an array of
    documents: a path that the preload takes apart."""
    with _queue(azurite) as queue:
        for number in range(70):
            queue.send_message(str(number))
        seen = [message.content for message in queue.receive_messages(messages_per_page=32, visibility_timeout=600)]
        assert seen == [str(number) for number in range(70)]


def in_node(script: str) -> Any:
    """Runs a script in a process in which Loki is as the preload makes it, and returns what it prints as JSON."""
    root = Path(__file__).parents[3]
    begin = f"""
        process.argv[1] = {json.dumps(str(root / "tools/node_modules/azurite/dist/src/queue/main.js"))};
        require({json.dumps(str(root / "tools/local/azurite-preload.cjs"))});
        const Loki = require(require.resolve("lokijs", {{ paths: [process.argv[1]] }}));
    """
    return json.loads(subprocess.run(["node", "-e", begin + script], capture_output=True, text=True, check=True).stdout)


def test_messages_and_rows_are_found_as_by_looking_at_all_of_them() -> None:
    """After each of many random changes, the queries that Azurite makes have the same answers as a search through
    everything; `differ` names those with another answer."""
    seen = in_node("""
        let seed = 7;
        const random = (most) => (seed = (seed * 48271) % 2147483647) % most;
        const db = new Loki("test");
        const messages = db.addCollection("messages", { indices: ["accountName", "queueName", "messageId"] });
        const rows = db.addCollection("rows", { indices: ["PartitionKey", "RowKey"] });
        const pick = (collection) => collection.data[random(collection.data.length)];
        const steps = [
          () => messages.insert({ accountName: "a", queueName: `q${random(3)}`, messageId: `m${messages.maxId}`,
                                  timeNextVisible: random(50), expirationTime: random(200) }),
          () => rows.insert({ PartitionKey: `p${random(3)}`, RowKey: `${random(30)}/${rows.maxId}` }),
          () => { const one = pick(messages); if (one) { one.timeNextVisible = random(50); messages.update(one); } },
          () => { const one = pick(messages); if (one) { one.timeNextVisible = random(50); messages.update([one]); } },
          () => { const one = pick(messages); if (one) messages.remove(random(2) ? one : [one]); },
          () => { const one = pick(rows); if (one) rows.remove(random(2) ? one : [one]); },
        ];
        const differ = [];
        const check = (name, found, wanted) => {
          const [one, other] = [found, wanted].map((each) => JSON.stringify(each.map(({ $loki }) => $loki)));
          if (one !== other) differ.push([name, one, other]);
        };
        for (let number = 0; number < 3000; number++) {
          steps[random(number % 4 ? steps.length : 2)]();
          const of = { accountName: "a", queueName: `q${random(3)}` };
          const all = messages.data.filter(({ queueName }) => queueName === of.queueName);
          const now = random(60);
          const byTime = (a, b) => a.timeNextVisible - b.timeNextVisible || a.$loki - b.$loki;
          const visible = all.filter(({ timeNextVisible }) => timeNextVisible <= now).sort(byTime);
          const query = { ...of, timeNextVisible: { $lte: now } };
          const order = [["timeNextVisible", false], ["$loki", false]];
          check("visible", messages.chain().find(query).compoundsort(order).limit(3).data(), visible.slice(0, 3));
          const byId = (a, b) => a.$loki - b.$loki;
          const over = messages.chain().find({ ...of, expirationTime: { $lte: now } }).data().sort(byId);
          check("expired", over, all.filter(({ expirationTime }) => expirationTime <= now).sort(byId));
          if (messages.count(of) !== all.length) differ.push(["count"]);
          const one = pick(messages);
          if (one) check("one", [messages.findOne({ ...of, messageId: one.messageId })].filter(Boolean),
                         one.queueName === of.queueName ? [one] : []);
          const range = { partition: `p${random(3)}`, start: `${random(30)}`, end: `${random(30)}` };
          const inside = ({ PartitionKey, RowKey }) =>
            PartitionKey === range.partition && range.start <= RowKey && RowKey < range.end;
          const condition = Object.assign(inside, { range });
          check("rows", rows.chain().where(condition).data().sort(byId), rows.data.filter(inside).sort(byId));
          const row = pick(rows);
          if (row) check("row", [rows.findOne({ PartitionKey: row.PartitionKey, RowKey: row.RowKey })], [row]);
        }
        console.log(JSON.stringify({ differ: differ.slice(0, 5), messages: messages.count(), rows: rows.count() }));
    """)
    assert seen["differ"] == []
    assert seen["messages"] > 20
    assert seen["rows"] > 20


@pytest.mark.large
def test_data_in_a_folder_is_there_again(tmp_path: Path) -> None:
    """Data that was written right before the stop is there again: Azurite saves it when it stops."""
    with Azurite.start(data=tmp_path) as first, _queue(first) as queue:
        queue.send_message("kept")
        with TableServiceClient.from_connection_string(first.connection_string) as tables:
            table = tables.create_table("kept")
            table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    with Azurite.start(data=tmp_path) as second:
        with QueueClient.from_connection_string(second.connection_string, queue.queue_name) as again:
            received = again.receive_message()
        assert received is not None
        assert received.content == "kept"
        with TableServiceClient.from_connection_string(second.connection_string) as tables:
            assert tables.get_table_client("kept").get_entity("p", "r")


def test_in_memory_starts_empty_and_stops_while_a_client_is_connected(azurite: Azurite) -> None:
    with _queue(azurite) as elsewhere:
        name = elsewhere.queue_name
    with Azurite.start(in_memory=True) as other:
        queue = QueueClient.from_connection_string(other.connection_string, name)
        with pytest.raises(ResourceNotFoundError):
            queue.get_queue_properties()
        other.stop()
        queue.close()
        assert [child.poll() for child in other.children.values()] == [0] * len(SERVICES), "each ended by itself"
        assert not any(is_running(pid) for pid in other.pids.values())


def test_a_killed_parent_leaves_nothing_running(tmp_path: Path) -> None:
    script = (
        "import time; from tools.local.azurite import Azurite\n"
        "azurite = Azurite.start(in_memory=True)\n"
        "print(*azurite.pids.values(), flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == len(SERVICES)
        assert all(is_running(pid) for pid in pids)
        parent.kill()
    wait(lambda: not any(is_running(pid) for pid in pids))
