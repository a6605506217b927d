"""A queue in memory, each property of which a test can change."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from azure.core.exceptions import HttpResponseError

from tools.admin.verification import queue_checks


class FakeQueue:
    """A queue in memory that behaves as Azure's does, except for what a test has changed."""

    def __init__(self, plant: str) -> None:
        self.plant = plant
        self.messages: dict[str, dict[str, Any]] = {}
        self.serial = 0

    def refuse(self, code: str) -> None:
        """Raises what the storage clients raise."""
        error = HttpResponseError(message=code)
        error.error_code = code  # type: ignore[attr-defined]  # as the storage clients do
        raise error

    def _receipt(self) -> str:
        self.serial += 1
        return f"receipt-{self.serial}"

    def send_message(self, content: str, *, visibility_timeout: int = 0, time_to_live: int = 0) -> Any:
        if visibility_timeout > (2**31 if self.plant == "hides for longer" else queue_checks.WEEK):
            self.refuse("OutOfRangeQueryParameterValue")
        if time_to_live > queue_checks.WEEK and self.plant == "lives for a week":
            self.refuse("OutOfRangeQueryParameterValue")
        if len(content) > (2**20 if self.plant == "takes more" else queue_checks.LARGEST):
            self.refuse("RequestBodyTooLarge")
        made: dict[str, Any] = {
            "id": str(len(self.messages)),
            "receipt": self._receipt(),
            "count": 0,
            "hidden": visibility_timeout > 0,
        }
        self.messages[made["id"]] = made
        return self._shown(made)

    def _shown(self, message: Mapping[str, Any]) -> Any:
        return SimpleNamespace(id=message["id"], pop_receipt=message["receipt"], dequeue_count=message["count"])

    def receive_message(self, *, visibility_timeout: int) -> Any:
        message = next((each for each in self.messages.values() if not each["hidden"]), None)
        if message is None:
            return None
        message |= {"count": message["count"] + 1, "receipt": self._receipt(), "hidden": visibility_timeout > 0}
        return self._shown(message)

    def update_message(self, message_id: str, receipt: str, *, visibility_timeout: int, content: str) -> Any:
        message = self._held(message_id, receipt)
        if self.plant != "keeps receipts":
            message["receipt"] = self._receipt()
        if self.plant == "counts updates":
            message["count"] += 1
        message["hidden"] = visibility_timeout > 0
        return self._shown(message)

    def delete_message(self, message_id: str, receipt: str) -> None:
        self._held(message_id, receipt)
        del self.messages[message_id]

    def _held(self, message_id: str, receipt: str) -> dict[str, Any]:
        message = self.messages[message_id]
        never_received = message["count"] == 0 and self.plant == "has no receipt of the put"
        if message["receipt"] != receipt or never_received:
            self.refuse("PopReceiptMismatch")
        return message

    def get_queue_properties(self) -> Any:
        hidden = 0 if self.plant == "counts the visible" else 1
        return SimpleNamespace(approximate_message_count=len(self.messages) * hidden)
