"""What `public-scopes` prints: the scopes to read what a public deployment shows to everybody."""

RECOMMENDED = (
    "auth:current-scopes",
    "auth:expand-scopes",
    "auth:get-client:*",
    "auth:get-role:*",
    "auth:list-clients",
    "auth:list-roles",
    "github:get-badge:*",
    "github:get-repository:*",
    "github:latest-status:*",
    "github:list-builds",
    "hooks:get:*",
    "hooks:list-hooks:*",
    "hooks:list-last-fires:*",
    "hooks:status:*",
    "index:find-task:*",
    "index:list-namespaces:*",
    "index:list-tasks:*",
    "purge-cache:all-purge-requests",
    "purge-cache:purge-requests:*",
    "queue:get-artifact:public/*",
    "queue:get-provisioner:*",
    "queue:get-task:*",
    "queue:get-worker-type:*",
    "queue:get-worker:*",
    "queue:list-artifacts:*",
    "queue:list-dependent-tasks:*",
    "queue:list-provisioners",
    "queue:list-task-group:*",
    "queue:list-worker-types:*",
    "queue:list-workers:*",
    "queue:pending-count:*",
    "queue:status:*",
    "secrets:list-secrets",
    "web:read-pulse",
    "worker-manager:get-worker-pool:*",
    "worker-manager:get-worker:*",
    "worker-manager:list-providers",
    "worker-manager:list-worker-pool-errors:*",
    "worker-manager:list-worker-pools",
    "worker-manager:list-workers:*",
    "worker-manager:should-worker-terminate:*",
)
"""What Taskcluster recommends for the role `anonymous` of a public deployment (contract 2.2).

Those of services that are not here count where other services of the site have signatures checked here."""

VIEWS = (
    "queue:claimed-count:*",
    "queue:claimed-list:*",
    "queue:get-task-queue:*",
    "queue:list-task-groups",
    "queue:list-task-queue-states",
    "queue:list-task-queues",
    "queue:pending-list:*",
)
"""The scopes for the console's lists and plots, and for a look into pools, which `RECOMMENDED` has by older names."""

PUBLIC_SCOPES = (*RECOMMENDED, *VIEWS)
"""All scopes that a caller without credentials needs for the console and for the public tools."""
