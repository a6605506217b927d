"""Blobs: blocks and their commit; and the host's record of timers."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobBlock

from tools.admin.verification.core import Check, Deployment, Differs, expect, refused

_BLOCK = base64.b64encode(b"block-0001").decode()
HOSTS = "azure-webjobs-hosts"
TIMERS = {"expire": timedelta(minutes=10), "reconcile": timedelta(minutes=5)}
"""Timers whose runs the host records, and how often they run; shorter ones it does not record."""


def commits_once(deployment: Deployment) -> None:
    """Content that is uploaded in blocks appears when it is committed, not before, and is committed once."""
    blob = deployment.container.get_blob_client("blocks")
    blob.stage_block(_BLOCK, b"content")
    try:
        blob.get_blob_properties()
    except ResourceNotFoundError:
        pass
    else:
        raise Differs("a block is visible before it is committed")
    blob.commit_block_list([BlobBlock(_BLOCK)], match_condition=MatchConditions.IfMissing)
    expect(blob.download_blob().readall() == b"content", "what was committed is not what was uploaded")
    refused(
        "a second commit on the condition that there is none",
        lambda: blob.commit_block_list([BlobBlock(_BLOCK)], match_condition=MatchConditions.IfMissing),
        "BlobAlreadyExists",
        "ConditionNotMet",
    )


def timers_run(deployment: Deployment) -> str:
    """The host has run the timers lately."""
    try:
        container = deployment.blobs.get_container_client(HOSTS)
        blobs = {blob.name: blob.last_modified for blob in container.list_blobs(name_starts_with="timers/")}
    except ResourceNotFoundError:
        raise Differs(f"there is no container {HOSTS}") from None
    if not blobs:
        raise Differs("the host has no record of timers")
    now, seen = datetime.now(UTC), []
    for name, every in TIMERS.items():
        runs = [modified for path, modified in blobs.items() if f".{name}/" in path]
        expect(bool(runs), f"there is no record of {name}")
        late = now - max(runs) - every
        expect(late < every, f"{name} ran {now - max(runs)} ago")
        seen.append(f"{name} {int((now - max(runs)).total_seconds())} s ago")
    return ", ".join(seen)


CHECKS = (
    Check("blocks-commit-once", commits_once),
    Check("timers-run", timers_run),
)
