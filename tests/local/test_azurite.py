"""Azurite as the local stack starts it: the services answer, data stays or not, nothing outlives its parent."""

import http.client
import json
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueClient, QueueServiceClient, generate_queue_sas

from tests.local.stacks import is_running, wait
from tools.local.azurite import ACCOUNT, ACCOUNT_KEY, SERVICES, Azurite
from tools.local.child import ChildError


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


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the CPU time of a process is read from /proc")
@pytest.mark.large
def test_hidden_messages_cost_other_gets_nothing(azurite: Azurite) -> None:
    """Stock Azurite sorts all resident messages at each get: with 1,500 hidden ones a get takes 2.5 times as long."""

    def cpu_ticks() -> int:
        """Counted, not timed: what else the machine does makes no difference."""
        fields = Path(f"/proc/{azurite.pids['queue']}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    with _queue(azurite) as queue, _queue(azurite) as hidden:

        def ticks_of_gets() -> int:
            started = cpu_ticks()
            for _ in range(100):
                queue.receive_message()
            return cpu_ticks() - started

        before = min(ticks_of_gets() for _ in range(4))
        for number in range(1500):
            hidden.send_message(str(number), visibility_timeout=3600)
        after = min(ticks_of_gets() for _ in range(4))
        assert after < 1.8 * before


def test_messages_come_once_each_in_order_after_array_updates(azurite: Azurite) -> None:
    """Getting 32 at a time updates an array of documents: the path that the preload takes apart."""
    with _queue(azurite) as queue:
        for number in range(70):
            queue.send_message(str(number))
        seen = [message.content for message in queue.receive_messages(messages_per_page=32, visibility_timeout=600)]
        assert seen == [str(number) for number in range(70)]


def in_node(script: str) -> Any:
    """What a script prints as JSON, in a process in which Loki is as the preload makes it."""
    root = Path(__file__).parents[2]
    begin = f"""
        process.argv[1] = {json.dumps(str(root / "tools/node_modules/azurite/dist/src/queue/main.js"))};
        require({json.dumps(str(root / "tools/local/azurite-preload.cjs"))});
        const Loki = require(require.resolve("lokijs", {{ paths: [process.argv[1]] }}));
    """
    return json.loads(subprocess.run(["node", "-e", begin + script], capture_output=True, text=True, check=True).stdout)


def test_removing_what_was_found_sorts_nothing() -> None:
    """As Azurite does once a minute with the contents of each deleted message, serving nothing meanwhile."""
    seen = in_node("""
        const extents = new Loki("test").addCollection("extents", { indices: ["id"] });
        for (let number = 0; number < 50; number++) extents.insert({ id: `${number}` });
        extents.findOne({ id: "0" });
        const { sort } = Array.prototype;
        let sorts = 0;
        Array.prototype.sort = function (...args) { sorts++; return sort.apply(this, args); };
        for (let number = 0; number < 40; number++) extents.findAndRemove({ id: `${number}` });
        const ids = extents.find().map(({ id }) => id);
        console.log(JSON.stringify({ ids, found: extents.findOne({ id: "45" })?.id, sorts }));
    """)
    assert seen["ids"] == [str(number) for number in range(40, 50)]
    assert seen["found"] == "45"
    assert seen["sorts"] == 0


def test_messages_and_rows_are_found_as_by_looking_at_all_of_them() -> None:
    """Random changes, and after each the queries that Azurite makes; `differ` names those with another answer."""
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


def test_a_look_into_a_queue_reads_no_message_of_others() -> None:
    seen = in_node("""
        const messages = new Loki("test").addCollection("messages", { indices: ["accountName", "queueName"] });
        const look = () => messages.chain()
          .find({ accountName: "a", queueName: "empty", timeNextVisible: { $lte: 1000 } }).data().length;
        look();
        for (let number = 0; number < 100; number++) {
          const one = messages.insert({ accountName: "a", queueName: "full", messageId: `${number}`,
                                        expirationTime: 5000, timeNextVisible: 1 });
        }
        let reads = 0;
        for (const one of messages.data) {
          Object.defineProperty(one, "queueName", { get: () => { reads++; return "full"; } });
        }
        console.log(JSON.stringify({ found: look(), reads }));
    """)
    assert seen == {"found": 0, "reads": 0}


def test_a_text_that_comes_in_pieces_is_read_whole(azurite: Azurite) -> None:
    with _queue(azurite) as queue:
        sas = generate_queue_sas(
            ACCOUNT,
            queue.queue_name,
            ACCOUNT_KEY,
            permission="ap",
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        text = "é" * 3_000
        body = f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>".encode()
        url = urlsplit(queue.url.partition("?")[0] + f"/messages?{sas}")
        connection = http.client.HTTPConnection(url.netloc)
        connection.putrequest("POST", f"{url.path}?{url.query}")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        for start in range(0, len(body), 3):  # every second piece ends in the middle of a character
            connection.send(body[start : start + 3])
        assert connection.getresponse().status == 201
        connection.close()
        (message,) = queue.peek_messages()
        assert message.content == text


def test_idle_connections_are_kept_beyond_five_seconds(azurite: Azurite) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", azurite.ports["queue"])
    connection.request("GET", "/devstoreaccount1?comp=list")
    answer = connection.getresponse()
    answer.read()
    assert answer.getheader("Keep-Alive") == "timeout=3600"
    connection.close()


@pytest.mark.large
def test_data_in_a_folder_is_there_again(tmp_path: Path) -> None:
    """The stop comes right after the writes: what Azurite had not saved yet, it saves then."""
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


def test_a_port_that_is_taken_is_named(azurite: Azurite) -> None:
    taken = azurite.ports["blob"]
    with pytest.raises(ChildError, match=rf"azurite ended(?s:.*){taken}"):
        Azurite.start(in_memory=True, ports={"blob": taken})


@pytest.mark.parametrize("in_memory", [True, False])
def test_where_data_goes_must_be_said_once(in_memory: bool, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either in_memory=True or a data folder"):
        Azurite.start(in_memory=in_memory, data=tmp_path if in_memory else None)
