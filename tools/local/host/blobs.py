"""The blobs that the host keeps for timers: locks that say who may run one, and when each ran."""

import contextlib
import json
from dataclasses import dataclass
from datetime import datetime

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob.aio import BlobClient, BlobLeaseClient, BlobServiceClient

_CONTAINER = "azure-webjobs-hosts"


@dataclass(frozen=True)
class ScheduleStatus:
    """When a timer last ran and is next due."""

    last: datetime
    next: datetime
    updated: datetime


class Lock:
    """A lease on a blob that this host holds."""

    def __init__(self, lease: BlobLeaseClient) -> None:
        self._lease = lease

    async def renew(self) -> None:
        """Begins the time of the lease anew. Raises AzureError."""
        await self._lease.renew()

    async def release(self) -> None:
        """Gives up the lease. Raises AzureError."""
        await self._lease.release()


class TimerBlobs:
    """The blobs of the hosts of one host id, which are those of one deployed app. All methods raise AzureError."""

    def __init__(self, service: BlobServiceClient, host_id: str) -> None:
        self._container = service.get_container_client(_CONTAINER)
        self._host_id = host_id

    async def try_lock(self, function: str, seconds: int) -> Lock | None:
        """Returns the lock of a timer for `seconds`; None if another host has it."""
        blob = self._container.get_blob_client(f"locks/{self._host_id}/Host.Functions.{function}.Listener")
        try:
            properties = await blob.get_blob_properties()
            if properties.lease.state == "leased":
                return None
        except ResourceNotFoundError:
            with contextlib.suppress(ResourceExistsError):
                await self._container.create_container()
            with contextlib.suppress(ResourceExistsError):
                await blob.upload_blob(b"")
        try:
            return Lock(await blob.acquire_lease(lease_duration=seconds))
        except ResourceExistsError:
            return None

    async def read_status(self, function: str) -> ScheduleStatus | None:
        """Returns the status of a timer that was written last."""
        try:
            content = await (await self._status_blob(function).download_blob()).readall()
        except ResourceNotFoundError:
            return None
        status = json.loads(content)
        return ScheduleStatus(*(datetime.fromisoformat(status[name]) for name in ("Last", "Next", "LastUpdated")))

    async def write_status(self, function: str, status: ScheduleStatus) -> None:
        """Replaces the status of a timer."""
        times = {"Last": status.last, "Next": status.next, "LastUpdated": status.updated}
        content = json.dumps({name: time.isoformat() for name, time in times.items()})
        await self._status_blob(function).upload_blob(content.encode(), overwrite=True)

    def _status_blob(self, function: str) -> BlobClient:
        return self._container.get_blob_client(f"timers/{self._host_id}/Host.Functions.{function}/status")
