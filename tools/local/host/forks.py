"""Processes of the app, forked from one that has imported what the host has, and in which nothing runs.

A process with threads, connections or an event loop cannot be forked safely. So the host forks one before it has any
of them, and asks that one for another whenever the app's process has to be replaced.
"""

import os
import signal
import socket
import traceback
import warnings
from collections.abc import Callable

_ASK = b"fork"
_PID_BYTES = 8


class Forks:
    """Makes processes that run one function. To be made before the first thread and the event loop."""

    def __init__(self, run: Callable[[socket.socket], None]) -> None:
        """Takes the function that is called in each process, with its end of a connection to the host."""
        self._control, control = socket.socketpair()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a tether's thread only waits for standard input
            pid = os.fork()
        if pid == 0:
            self._control.close()
            _fork_when_asked(control, run)
        control.close()

    def close(self) -> None:
        """Ends the process that forks; processes that it has made go on."""
        self._control.close()

    def start(self) -> tuple[socket.socket, int]:
        """Forks a new process; returns the host's end of the connection, and the process id."""
        here, there = socket.socketpair()
        with there:
            socket.send_fds(self._control, [_ASK], [there.fileno()])
        return here, int.from_bytes(self._control.recv(_PID_BYTES))


def _fork_when_asked(control: socket.socket, run: Callable[[socket.socket], None]) -> None:
    """Forks a process whenever the host asks for one, until the host's process has ended."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the host is told, and decides
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, len(_ASK), 1)
        if not asked:
            os._exit(0)
        connection = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                run(connection)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        connection.close()
        control.sendall(pid.to_bytes(_PID_BYTES))
