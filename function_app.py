"""The Functions app: registers the blueprints."""

import azure.functions as func

from functions import api, expirations, housekeeping, metrics, process

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
app.register_functions(api.blueprint)
app.register_functions(expirations.blueprint)
app.register_functions(housekeeping.blueprint)
if process.SETTINGS.exports_telemetry:
    app.register_functions(metrics.blueprint)
