"""`python tests/forked_client.py ADDRESS … CODE`: what pytest-xdist starts in place of `python … -c CODE`.

The process that tests/forked.py forks has the standard streams of this one, which ends when that one has ended.
"""

import contextlib
import signal
import socket
import sys

signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other one gets it as well
with socket.socket(socket.AF_UNIX) as server, contextlib.suppress(ConnectionResetError):
    server.connect(sys.argv[1])
    socket.send_fds(server, [sys.argv[-1].encode()], [0, 1, 2])
    server.recv(1)
