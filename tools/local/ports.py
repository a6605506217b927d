"""The ports of a local stack: all derived from the API's, so that stacks with other ports run side by side."""

import contextlib
import errno
import socket
from dataclasses import dataclass

from tools.local import state

DEFAULT_PORT = 7071
"""The port at which `func start` listens."""

MAX_HOSTS = 10
SPAN = 20
"""Size of the range of ports of a stack: a stack on port N uses ports from N up to N + SPAN - 1 only."""


class PortTakenError(Exception):
    """A port that the stack needs is in use; the message names it."""


@dataclass(frozen=True)
class Ports:
    """The port numbers of a stack on port N with H hosts: hosts have N … N+H-1, the others N+10 and more."""

    hosts: tuple[int, ...]
    blob: int
    queue: int
    table: int
    amqp: int
    broker_control: int
    uploads: int

    @classmethod
    def derive(cls, port: int, hosts: int = 1) -> "Ports":
        """Returns the ports of the stack on `port`. Raises ValueError if they don't fit."""
        if not 1024 <= port <= 65535 - SPAN:
            raise ValueError(f"the port must lie between 1024 and {65535 - SPAN}, not {port}")
        if not 1 <= hosts <= MAX_HOSTS:
            raise ValueError(f"there must be between 1 and {MAX_HOSTS} hosts, not {hosts}")
        return cls(
            hosts=tuple(range(port, port + hosts)),
            blob=port + 10,
            queue=port + 11,
            table=port + 12,
            amqp=port + 13,
            broker_control=port + 14,
            uploads=port + 15,
        )

    @property
    def api(self) -> int:
        """The port that clients use, and that names the stack."""
        return self.hosts[0]

    @property
    def storage(self) -> dict[str, int]:
        """Returns the ports as `tools.local.azurite` wants them."""
        return {"blob": self.blob, "queue": self.queue, "table": self.table}

    def check_free(self, *, with_host: bool = True, uploads: bool = False) -> None:
        """Raises PortTakenError for the first port that another process listens on."""
        uses = dict.fromkeys(self.hosts if with_host else (), "the API")
        uses |= {self.uploads: "uploads"} if uploads else {}
        uses |= {self.blob: "blobs", self.queue: "queues", self.table: "tables"}
        uses |= {self.amqp: "Service Bus", self.broker_control: "the broker's control"}
        for port, use in uses.items():
            if not is_free(port):
                raise PortTakenError(f"port {port} (for {use}) is taken by {self._taken_by(port)}")

    def _taken_by(self, port: int) -> str:
        """Returns whose port it is, and which port to choose instead."""
        for stack in state.running_stacks():
            if stack.port <= port < stack.port + SPAN:
                return (
                    f"the stack on port {stack.port}. Stacks need ports that are at least {SPAN} apart, "
                    f"for example --port {stack.port + SPAN}."
                )
        other = self.api + 100
        return f"another process. Choose another port for the whole stack with --port, for example --port {other}."


def is_free(port: int) -> bool:
    """Returns whether a server could listen on this port of 127.0.0.1 now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
