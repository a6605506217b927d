"""What the endpoints of artifacts and objects call."""

from __future__ import annotations

from shared.base.frozen import dataclass
from shared.queue.artifacts.creating import Artifacts, Finishing
from shared.queue.artifacts.objects import Objects
from shared.queue.artifacts.reading import Reading
from shared.queue.artifacts.upload_urls import Relay, UploadUrls
from shared.queue.artifacts.uploads import Uploads
from shared.queue.expiry.tasks import ArtifactExpiry


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
