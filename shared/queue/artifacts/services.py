"""What the endpoints of artifacts and objects call."""

from __future__ import annotations

from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.queue.artifacts.creating import Artifacts, Finishing
from shared.queue.artifacts.objects import Objects
from shared.queue.artifacts.reading import Reading
from shared.queue.artifacts.upload_urls import Relay, UploadUrls
from shared.queue.artifacts.uploads import Uploads
from shared.queue.expiry.tasks import ArtifactExpiry
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class ArtifactUseCases:
    """The use-cases of artifacts."""

    creation: Artifacts
    finishing: Finishing
    reading: Reading
    urls: UploadUrls
    relay: Relay
    objects: Objects
    uploads: Uploads
    expiry: ArtifactExpiry


@dataclass(frozen=True, kw_only=True)
class ArtifactServices:
    """Artifacts and the objects that hold their data."""

    settings: Settings
    runtime: Runtime
    artifacts: ArtifactUseCases
