"""Slug ids: the form of ids that the service makes (contract 0.1)."""

from __future__ import annotations

import base64
import hashlib
import os


def digest_of(name: str) -> str:
    """Returns a hash that stands for a name where the name itself does not fit."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def new_slugid() -> str:
    """Returns a fresh v4 UUID in URL-safe base64 without padding: 22 characters, never starting with a dash."""
    raw = bytearray(os.urandom(16))
    raw[0] &= 0x7F
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
