"""The Taskcluster Queue on Azure: domain, use-cases, and the adapters around them. Knows nothing of triggers."""
