"""The Functions app: registers the blueprints."""

import azure.functions as func

from functions import http, process, queue_triggers, timer_triggers
from functions.loading import load_sdks

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
app.register_functions(http.blueprint)
if process.SETTINGS.serves == "calls":
    app.register_functions(queue_triggers.blueprint)
    app.register_functions(timer_triggers.blueprint)
load_sdks(process.SETTINGS)
