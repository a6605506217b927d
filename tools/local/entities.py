"""Everything that a deployment has in its storage account and its Service Bus namespace, by name.

One list for the templates that make it (infra/entities.json) and for the backup; the queues of pools are not in it,
since they are created at their first use.
"""

from __future__ import annotations

from typing import Final

from shared.auth.clients import rows as client_store
from shared.auth.roles import rows as role_store
from shared.queue.events import exchanges
from shared.queue.tasks.internal_messages import INTERNAL_QUEUES
from shared.store import keys

TABLES: Final = (
    keys.TASKS,
    keys.GROUPS,
    keys.POOLS,
    keys.DIRECTORY,
    keys.EXPIRY,
    keys.INDEX,
    client_store.TABLE,
    role_store.TABLE,
    keys.HEALTH,
    keys.AUDIT,
)
"""The tables, those with status rows first. In a backup that copies the tables in this order, projections are newer
than the rows that they project, as their readers expect after a crash."""

QUEUES: Final = tuple(name for queue in INTERNAL_QUEUES for name in (queue, f"{queue}-poison"))
CONTAINERS: Final = (keys.PRIVATE, keys.PUBLIC)
TOPICS: Final = exchanges.TOPICS
"""The topics' names, without the deployment's prefix."""
