"""Access tokens encrypted at rest: a reader of the table, or a copy of it, cannot sign anything."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.base.errors import ServiceError

if TYPE_CHECKING:  # loaded with the first token: it takes 6 MB
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


_FORMAT = b"\x01"
_KEY_BYTES = 32
_KEY_NAME_BYTES = 8
_NONCE_BYTES = 12


class CannotOpen(ServiceError):
    """The token was encrypted with a key that is not among the settings, or for another client, or was changed."""


class Vault:
    """Seals tokens with the first key and opens them with any, by AES-256 in GCM. What is sealed is bound to its client
    id, so that it is worth nothing in another client's row."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Takes keys of 32 bytes in URL-safe base64, the current one first. Raises ValueError for others, or none."""
        if not keys:
            raise ValueError("access tokens need at least one encryption key")
        self._keys: dict[bytes, bytes] = {}
        for number, key in enumerate(keys, 1):
            try:
                raw = base64.b64decode(key, altchars=b"-_", validate=True)
            except (binascii.Error, ValueError):
                raw = b""
            if len(raw) != _KEY_BYTES:
                raise ValueError(f"encryption key {number} is not 32 bytes in URL-safe base64")
            self._keys[hashlib.sha256(b"name of a key:" + raw).digest()[:_KEY_NAME_BYTES]] = raw
        self._current = next(iter(self._keys))

    def seal(self, client_id: str, access_token: str) -> bytes:
        """Returns the token as it is stored."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(self._keys[self._current]).encrypt(nonce, access_token.encode(), client_id.encode())
        return _FORMAT + self._current + nonce + sealed

    def open(self, client_id: str, sealed: bytes) -> str:
        """Returns the decrypted token. Raises CannotOpen."""
        from cryptography.exceptions import InvalidTag

        name, nonce, content = _split(sealed)
        if not sealed.startswith(_FORMAT) or name not in self._keys:
            raise CannotOpen
        try:
            return _cipher(self._keys[name]).decrypt(nonce, content, client_id.encode()).decode()
        except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
            raise CannotOpen from None

    def is_current(self, sealed: bytes) -> bool:
        """Returns whether the token is sealed with the first key. If so, the older keys are not needed for it."""
        return _split(sealed)[0] == self._current


def _cipher(raw: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(raw)


def _split(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    start = len(_FORMAT)
    middle = start + _KEY_NAME_BYTES
    end = middle + _NONCE_BYTES
    return sealed[start:middle], sealed[middle:end], sealed[end:]
