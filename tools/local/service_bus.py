"""The local Service Bus: the broker of tools/local/broker as a child process, and its controls.

The broker keeps everything in memory. tools/local/broker/README.md says what it offers of Service Bus and what not.
"""

import contextlib
import http.client
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tools.local.child import Child

HOST = "127.0.0.1"
READY_SECONDS = 30
CONTROL_SECONDS = 10

_MAIN = Path(__file__).resolve().parent / "broker" / "main.js"

Topic = str | Mapping[str, Any]
"""A topic: its name, or an object as tools/local/broker/README.md describes it (name, subscriptions, rules, limits)."""


class ControlError(RuntimeError):
    """The broker refused a request on its control port; the message says why."""


class ServiceBus:
    """A running broker. Use `ServiceBus.start` in a `with` statement, or call `stop`."""

    def __init__(self, config: Mapping[str, Any], logs: Path, cleanup: contextlib.ExitStack) -> None:
        self._config = dict(config)
        self._logs = logs
        self._cleanup = cleanup
        self._start_child()

    @classmethod
    def start(
        cls,
        topics: Sequence[Topic] = (),
        *,
        subscriptions: Sequence[str] = (),
        port: int = 0,
        logs: Path | None = None,
        **settings: float,
    ) -> Self:
        """Starts the broker and waits until it listens.

        `subscriptions` are declared on every topic, for all of its messages. `port` 0 takes any free one. `logs` is
        a folder (default: a temporary one). `settings` are the broker's other keys, for example `lockSeconds`.
        Raises ChildError if the broker does not start: a bad configuration, or a port that is taken.
        """
        config = {**settings, "amqpPort": port, "topics": [_topic(topic, subscriptions) for topic in topics]}
        with contextlib.ExitStack() as undo:
            folder = logs or Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="service-bus-")))
            return cls(config, folder, undo.pop_all())

    def _start_child(self) -> None:
        argv = ["node", str(_MAIN), "--follow-stdin", "--config", json.dumps(self._config)]
        self.child = Child.start("service-bus", argv, log=self._logs / "service-bus.log")
        try:
            ready = self.child.wait_for(r'\{"amqpPort":(\d+),"controlPort":(\d+)\}', READY_SECONDS)
        except BaseException:
            self.child.stop(grace=0)
            self._cleanup.close()
            raise
        self.port = int(ready[1])
        self._control_port = int(ready[2])

    @property
    def connection_string(self) -> str:
        """Connection string for the SDK's clients; the administration client also needs a special transport."""
        return service_bus_connection_string(self.port)

    @property
    def pid(self) -> int:
        """Process id of the broker."""
        return self.child.pid

    def state(self) -> dict[str, Any]:
        """Returns connections, faults, and for each topic and subscription what came in, waits and was delivered."""
        return self._request("GET", "/state")

    def add_topic(self, topic: Topic) -> None:
        """Declares a topic. Raises ControlError if it exists or is malformed."""
        self._request("POST", "/topics", _topic(topic, ()))

    def add_subscription(self, topic: str, name: str, **settings: Any) -> None:
        """Declares a subscription; `settings` are keys of a subscription, for example `rules`.

        Raises ControlError if the topic does not exist, or the subscription exists or is malformed.
        """
        self._request("POST", "/subscriptions", {"topic": topic, "name": name, **settings})

    def pause(self) -> None:
        """Leaves sends without an answer until `resume`; they are taken then, oldest first."""
        self._request("POST", "/pause")

    def resume(self) -> None:
        """Ends a pause."""
        self._request("POST", "/resume")

    def refuse(
        self,
        condition: str = "com.microsoft:server-busy",
        *,
        every: int = 1,
        count: int | None = None,
        topic: str | None = None,
        message_id: str | None = None,
        stored: bool = False,
    ) -> None:
        """Answers sends with an error, until `accept`.

        The fault hits every `every`-th send to `topic` (None: to any topic), at most `count` sends, and with
        `message_id` only sends that include this message. With `stored` the messages are stored all the same, as when
        only the answer goes wrong. Replaces a fault that was set before.
        """
        self._set_fault("reject", every, count, topic, stored, condition=condition, messageId=message_id)

    def return_unsettled(self, outcome: Literal["release", "modify"], *, count: int | None = None) -> None:
        """Answers sends with an outcome that is neither acceptance nor refusal, and takes nothing; until `accept`."""
        self._set_fault(outcome, 1, count, None, stored=False)

    def drop(self, *, every: int = 1, count: int | None = None, topic: str | None = None, stored: bool = False) -> None:
        """Cuts the connection instead of answering sends; otherwise does as `refuse`."""
        self._set_fault("drop", every, count, topic, stored)

    def accept(self) -> None:
        """Ends the effect of `refuse`, `return_unsettled` and `drop`."""
        self._request("POST", "/fault", None)

    def _set_fault(
        self, action: str, every: int, count: int | None, topic: str | None, stored: bool, **more: str | None
    ) -> None:
        fault = {"action": action, "every": every, "topic": topic, "stored": stored, **more}
        self._request("POST", "/fault", fault if count is None else {**fault, "count": count})

    def close_connections(self, condition: str | None = None) -> None:
        """Cuts all client connections, or closes them in the protocol with an error condition."""
        self._request("POST", "/close-connections", {"condition": condition} if condition else {})

    def go_away(self) -> None:
        """Refuses new connections and cuts those that are open; what is stored stays, until `come_back`."""
        self._request("POST", "/stop-listening")
        self._request("POST", "/close-connections", {})

    def come_back(self) -> None:
        """Listens again, on the same port."""
        self._request("POST", "/listen")

    def reset(self) -> None:
        """Makes the broker as it was when it started: no faults, connections or messages, and the topics of then."""
        self._request("POST", "/reset")

    def kill(self) -> None:
        """Ends the broker at once, as a crash does; what was stored is lost."""
        self.child.kill()

    def restart(self) -> None:
        """Starts a broker that was killed again, empty, on the same port, with the topics that `start` was given."""
        self._config["amqpPort"] = self.port
        self._start_child()

    def stop(self) -> None:
        """Ends the broker and waits until it has gone."""
        self.child.stop(grace=5)
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _request(self, method: str, path: str, *body: object) -> dict[str, Any]:
        connection = http.client.HTTPConnection(HOST, self._control_port, timeout=CONTROL_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body=json.dumps(body[0]) if body else None)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        if response.status != http.HTTPStatus.OK:
            raise ControlError(answer["error"])
        return answer


def service_bus_connection_string(port: int) -> str:
    """Returns the connection string of a broker on this machine. Its key is not checked, and protects nothing."""
    key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=local"
    return f"Endpoint=sb://{HOST}:{port};{key};UseDevelopmentEmulator=true;"


def _topic(topic: Topic, subscriptions: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {"name": topic} if isinstance(topic, str) else dict(topic)
    given["subscriptions"] = [*given.get("subscriptions", []), *({"name": name} for name in subscriptions)]
    return given
