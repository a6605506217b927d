"""Signed URLs of the in-memory account: they say what they allow, and lead nowhere."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from shared.store.interface import SignedQueue


class MemoryAccess:
    """See `interface.Access`."""

    async def process_queue(self, queue: str, *, start: datetime, expiry: datetime) -> SignedQueue:
        sas = urlencode({"sp": "p", "st": start.isoformat(), "se": expiry.isoformat()})
        return SignedQueue(url=f"https://memory.example.com/{queue}", sas=sas)

    async def read_blob(
        self,
        container: str,
        path: str,
        *,
        start: datetime,
        expiry: datetime,
        content_type: str,
        content_disposition: str,
    ) -> str:
        headers = {"rsct": content_type, "rscd": content_disposition}
        return self._blob(container, path, {"sp": "r", **headers}, start, expiry)

    async def write_blob(self, container: str, path: str, *, start: datetime, expiry: datetime) -> str:
        return self._blob(container, path, {"sp": "w"}, start, expiry)

    def plain_url(self, container: str, path: str) -> str:
        return f"https://memory.example.com/{container}/{path}"

    def _blob(self, container: str, path: str, allowed: dict[str, str], start: datetime, expiry: datetime) -> str:
        shown = {**allowed, "st": start.isoformat(), "se": expiry.isoformat()}
        return f"{self.plain_url(container, path)}?{urlencode(shown)}"
