"""Azurite as the local stack starts it: the services answer, data stays or not, nothing outlives its parent."""

import http.client
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueClient, QueueServiceClient

from local.azurite import SERVICES, Azurite
from local.child import ChildError
from tests.local.stacks import is_running, wait


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


def test_removing_what_was_found_sorts_nothing() -> None:
    """As Azurite does once a minute with the contents of each deleted message, serving nothing meanwhile."""
    root = Path(__file__).parents[2]
    script = f"""
        process.argv[1] = {json.dumps(str(root / "node_modules/azurite/dist/src/queue/main.js"))};
        require({json.dumps(str(root / "local/azurite-preload.cjs"))});
        const Loki = require(require.resolve("lokijs", {{ paths: [process.argv[1]] }}));
        const extents = new Loki("test").addCollection("extents", {{ indices: ["id"] }});
        for (let number = 0; number < 50; number++) extents.insert({{ id: `${{number}}` }});
        extents.findOne({{ id: "0" }});
        const {{ sort }} = Array.prototype;
        let sorts = 0;
        Array.prototype.sort = function (...args) {{ sorts++; return sort.apply(this, args); }};
        for (let number = 0; number < 40; number++) extents.findAndRemove({{ id: `${{number}}` }});
        const ids = extents.find().map(({{ id }}) => id);
        console.log(JSON.stringify({{ ids, found: extents.findOne({{ id: "45" }})?.id, sorts }}));
    """
    ran = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    seen = json.loads(ran.stdout)
    assert seen["ids"] == [str(number) for number in range(40, 50)]
    assert seen["found"] == "45"
    assert seen["sorts"] == 0


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
        "import time; from local.azurite import Azurite\n"
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
    with pytest.raises(ChildError, match=rf"azurite-blob ended(?s:.*){taken}"):
        Azurite.start(in_memory=True, ports={"blob": taken})


@pytest.mark.parametrize("in_memory", [True, False])
def test_where_data_goes_must_be_said_once(in_memory: bool, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either in_memory=True or a data folder"):
        Azurite.start(in_memory=in_memory, data=tmp_path if in_memory else None)
