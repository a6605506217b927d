"""`listen` as a user runs it, against the local Service Bus."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.promises.events.builders import GROUP_ID, TASK_ID, Life
from tests.promises.events.receiving import publishing
from tools.listen.__main__ import main
from tools.local.child import Child
from tools.local.service_bus import ServiceBus

ROOT = Path(__file__).resolve().parents[3]
TOPIC = "task-pending"


@pytest.fixture(scope="module")
def bus() -> Iterator[ServiceBus]:
    with ServiceBus.start([TOPIC, "task-running", "prefix/task-pending"]) as running:
        yield running


@contextmanager
def listening(bus: ServiceBus, log: Path, *arguments: str, is_forked: bool = True) -> Iterator[Child]:
    """Yields the command once it listens; ends it if the test does not wait for its end."""
    program = ("tools.local.tethered", "tools.listen") if is_forked else ("tools.listen",)
    child = Child.start(
        "listen",
        [sys.executable, "-m", *program, *arguments],
        log=log,
        env={"SERVICEBUS_CONNECTION_STRING": bus.connection_string},
        cwd=ROOT,
    )
    try:
        child.wait_for(r"^listening to .*\n", 20)
        yield child
    finally:
        child.stop(grace=0)


async def end_of(child: Child) -> list[str]:
    """Waits for the end of the command, and returns what it has printed since it listens."""
    assert await asyncio.to_thread(child.wait, 20) == 0, child.output()
    return child.output().splitlines()[1:]


def subscriptions(bus: ServiceBus, topic: str = TOPIC) -> list[str]:
    return list(bus.state()["topics"][topic]["subscriptions"])


async def publish(bus: ServiceBus, *lives: Life) -> None:
    async with publishing(bus) as publisher:
        await publisher.publish([message for life in lives for message in life.schedule()])


async def test_messages_are_printed_and_the_subscription_is_removed(bus: ServiceBus, tmp_path: Path) -> None:
    other = Life.begin(task_id="CAAAAAAAQACAAAAAAAAAAA", taskQueueId="prov/other", routes=[])
    lives = [Life.begin(), other, Life.begin(task_id="DAAAAAAAQACAAAAAAAAAAA", routes=["a|b", "~.c"])]
    with listening(bus, tmp_path / "log", TOPIC, "primary.*.*.*.*.prov.pool.#", "--count", "2") as child:
        assert len(subscriptions(bus)) == 1
        await publish(bus, *lives)
        first, second = (json.loads(line) for line in await end_of(child))
    payload = first.pop("payload")
    assert first == {
        "exchange": TOPIC,
        "routingKey": f"primary.{TASK_ID}.0._._.prov.pool.sched.{GROUP_ID}._",
        "routes": ["index.project.main.latest", "notify.by-email"],
        "messageId": f"{TASK_ID}/0/task-pending",
    }
    assert payload["status"]["taskId"] == TASK_ID
    assert second["routes"] == ["a|b", "~.c"]
    assert subscriptions(bus) == []


async def test_an_existing_subscription_is_read_and_left(bus: ServiceBus, tmp_path: Path) -> None:
    bus.add_subscription("prefix/task-pending", "mine")
    async with publishing(bus, topic_prefix="prefix/") as publisher:
        await publisher.publish(Life.begin().schedule())
    arguments = (TOPIC, "--topic-prefix", "prefix/", "--existing", "mine", "--word", f"taskId={TASK_ID}", "--count=1")
    with listening(bus, tmp_path / "log", *arguments) as child:
        (line,) = await end_of(child)
    assert json.loads(line)["messageId"] == f"{TASK_ID}/0/task-pending"
    state = bus.state()["topics"]["prefix/task-pending"]["subscriptions"]["mine"]
    assert (state["active"], state["locked"], state["completed"]) == (0, 0, 1)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    """Runs the command; returns its exit code (or last lines) and output."""
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return caught.value.code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no-such-exchange"], "there is no exchange 'no-such-exchange'; the exchanges are task-defined, "),
        ([TOPIC, "primary.x"], "no message of task-pending matches"),
        ([TOPIC, "#", "--word", "taskId=x"], "give patterns or words, not both"),
        ([TOPIC, "--word", "nonsense"], "has no word nonsense"),
        ([TOPIC], "say where to listen"),
        ([TOPIC], "For the local stack: ./dev up --detach"),
        ([TOPIC, "--connection-string", "nonsense"], "Connection string is either blank or malformed"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SERVICEBUS_CONNECTION_STRING", "SERVICEBUS_NAMESPACE", "TOPIC_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    code, _ = run(capsys, *arguments)
    assert str(code).startswith("listen: ")
    assert reason in str(code)
