"""Puts the use-cases of artifacts together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.settings import Settings
from shared.storage.artifacts import ArtifactStore
from shared.storage.expiry import ExpiryStore
from shared.storage.interface import Storage
from shared.usecases.artifact_expiry import ArtifactExpiry
from shared.usecases.artifacts import Artifacts
from shared.usecases.executor import Stores
from shared.usecases.finishing import Finishing
from shared.usecases.objects import Objects
from shared.usecases.reading import Reading
from shared.usecases.relay import Relay
from shared.usecases.upload_urls import UploadUrls
from shared.usecases.uploads import Uploads
from shared.usecases.work import Issuer


@dataclass(frozen=True, kw_only=True)
class ArtifactServices:
    """The use-cases of artifacts in one process."""

    creation: Artifacts
    finishing: Finishing
    reading: Reading
    urls: UploadUrls
    relay: Relay
    objects: Objects
    uploads: Uploads
    expiry: ArtifactExpiry


def assemble_artifacts(
    settings: Settings, stores: Stores, storage: Storage, expiry: ExpiryStore, issuer: Issuer
) -> ArtifactServices:
    """The use-cases on the given storage."""
    runtime = stores.runtime
    put = timedelta(seconds=settings.artifact_put_seconds)
    artifacts = ArtifactStore(storage)
    uploads = Uploads(storage, artifacts, expiry, runtime)
    creation = Artifacts(stores, artifacts, expiry, storage.blobs, put)
    relay = Relay(
        stores.tasks,
        artifacts,
        uploads,
        runtime.now,
        signing_keys=[key.get_secret_value() for key in settings.message_signing_keys],
        root_url=settings.root_url,
        limit=settings.artifact_relay_limit_bytes,
    )
    return ArtifactServices(
        creation=creation,
        finishing=Finishing(stores, artifacts, storage.blobs, creation),
        reading=Reading(
            stores.tasks,
            artifacts,
            uploads,
            storage.access,
            runtime,
            life=timedelta(seconds=settings.artifact_get_seconds),
            public_base_url=settings.public_artifact_base_url,
        ),
        urls=UploadUrls(storage.access, relay, runtime),
        relay=relay,
        objects=Objects(
            artifacts,
            uploads,
            relay,
            storage,
            runtime,
            issuer,
            mode=settings.artifact_upload_mode,
            put=put,
        ),
        uploads=uploads,
        expiry=ArtifactExpiry(stores.tasks, artifacts, uploads, storage.blobs, runtime),
    )
