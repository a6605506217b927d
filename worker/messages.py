"""Messages between two processes over a socket: JSON after its length, and perhaps an open file."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

Message = dict[str, Any]

_LENGTH = 8


def send(over: socket.socket, message: Message, file: int | None = None) -> None:
    """Sends a message, and a descriptor with it. Raises OSError."""
    content = json.dumps(message).encode()
    header = len(content).to_bytes(_LENGTH)
    if file is None:
        over.sendall(header)
    else:
        socket.send_fds(over, [header], [file])
    over.sendall(content)


def receive(over: socket.socket) -> tuple[Message, int | None] | None:
    """The next message, and the descriptor that came with it, which is now this process's; None at the end.

    Raises OSError.
    """
    header, files, _, _ = socket.recv_fds(over, _LENGTH, 1)
    file = files[0] if files else None
    try:
        header += _read(over, _LENGTH - len(header)) if header else b""
        content = _read(over, int.from_bytes(header))
        if not content:
            raise EOFError
        return json.loads(content), file
    except EOFError:
        if file is not None:
            os.close(file)
        return None


def _read(over: socket.socket, size: int) -> bytes:
    parts = []
    while size > 0:
        part = over.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
