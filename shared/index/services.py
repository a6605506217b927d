"""The services that the endpoints of the Index service call."""

from __future__ import annotations

from shared.auth.audit import Audit
from shared.auth.keyring import TableKeyring
from shared.base.frozen import dataclass
from shared.base.settings import Settings
from shared.index.entries import Index
from shared.queue.services import ArtifactUseCases
from shared.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class IndexServices:
    """The index, and the artifacts of the tasks that it names."""

    settings: Settings
    runtime: Runtime
    keyring: TableKeyring
    artifacts: ArtifactUseCases
    index: Index
    audit: Audit
