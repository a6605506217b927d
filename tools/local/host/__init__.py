"""A Functions host for the local machine: serves a Python function app as deployed Azure Functions would.

It knows nothing of the product: it imports `function_app.py`, reads `host.json` and the settings, and serves what the
bindings of the indexed functions say. HTTP, queue and timer triggers are supported; anything else is an error at the
start. Run it with `python -m tools.local.host --app-dir . --port 7071`.

What differs from a deployed app: trigger queues are created when they are absent (locally there is no
infrastructure deployment), access keys are not asked for (as with Core Tools), every host process runs its own
timers, and a timer's schedule status is kept in memory.
"""
