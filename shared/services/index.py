"""What the endpoints of the Index service call."""

from __future__ import annotations

from shared.auth.keyring import TableKeyring
from shared.frozen import dataclass
from shared.runtime import Runtime
from shared.services.queue import ArtifactUseCases
from shared.settings import Settings
from shared.usecases.index import Index


@dataclass(frozen=True, kw_only=True)
class IndexServices:
    """The index, and the artifacts of the tasks that it names."""

    settings: Settings
    runtime: Runtime
    keyring: TableKeyring
    artifacts: ArtifactUseCases
    index: Index
