"""A Functions host for the local machine: serves a Python function app as deployed Azure Functions would.

It knows nothing of the product: it imports `function_app.py`, reads `host.json` and the settings, and serves what the
bindings of the indexed functions say. HTTP, queue and timer triggers are supported; anything else is an error at the
start. Run it with `python -m tools.local.host --app-dir . --port 7071`.

It behaves as Microsoft's host was recorded to behave, also when storage or the app fails: docs/functions-host.md says
how, and where it differs. Two processes serve an app: the host's takes requests and messages (`host.py`), and the app's
runs the functions (`worker.py`).
"""
