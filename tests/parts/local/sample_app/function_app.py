"""An app with one function of each kind that the local host serves; tests replace their code."""

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
blueprint = func.Blueprint()


@blueprint.route(route="items/{name}", methods=["GET", "PUT", "HEAD"])
async def item(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    raise NotImplementedError


@blueprint.route(route="files/{*rest}", methods=["GET", "POST"])
def files(req: func.HttpRequest) -> func.HttpResponse:
    raise NotImplementedError


@blueprint.route(route="words", methods=["GET"])
async def words(req: func.HttpRequest) -> str:
    raise NotImplementedError


@blueprint.queue_trigger(arg_name="message", queue_name="%SAMPLE_QUEUE%", connection="SampleStorage")
async def work(message: func.QueueMessage, context: func.Context) -> None:
    raise NotImplementedError


@blueprint.queue_trigger(arg_name="message", queue_name="%SAMPLE_QUEUE%-sync", connection="SampleStorage")
def work_in_thread(message: func.QueueMessage) -> None:
    raise NotImplementedError


@blueprint.timer_trigger(arg_name="timer", schedule="%SAMPLE_SCHEDULE%", run_on_startup=True)
async def tick(timer: func.TimerRequest) -> None:
    raise NotImplementedError


app.register_functions(blueprint)
