"""The HTTP functions: one a resource family, each with a catch-all route; the table of endpoints does the rest.

Deployed Functions decode `%2F` before they match routes, and allow catch-alls only last, so routes of their own could
not tell the contract's paths apart (design 8).
"""

from __future__ import annotations

import azure.functions as func

from functions import (
    accounts,
    artifacts,
    groups,
    metrics,
    objects,
    pools,
    references,
    relay,
    service,
    tasks,
    work,
    workers,
)
from functions.http import METHODS, Api, respond
from shared.api.table import ENDPOINTS, PREFIX, auth
from shared.api.table import objects as object_table
from shared.api.table import relay as relay_table

blueprint = func.Blueprint()

APIS = (
    Api.of(
        PREFIX,
        ENDPOINTS,
        service.HANDLERS,
        tasks.HANDLERS,
        groups.HANDLERS,
        work.HANDLERS,
        artifacts.HANDLERS,
        pools.HANDLERS,
        workers.HANDLERS,
    ),
    Api.of(auth.PREFIX, auth.ENDPOINTS, accounts.HANDLERS),
    Api.of(object_table.PREFIX, object_table.ENDPOINTS, objects.HANDLERS),
    Api.of(relay_table.PREFIX, relay_table.ENDPOINTS, relay.HANDLERS),
    Api.of("", references.ENDPOINTS, references.HANDLERS),
    Api.of("", metrics.ENDPOINTS, metrics.HANDLERS),
)


@blueprint.function_name("task")
@blueprint.route("api/queue/v1/task/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def task_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/task/…: definitions, runs, artifacts."""
    return await respond(APIS, req, context)


@blueprint.function_name("tasks")
@blueprint.route("api/queue/v1/tasks/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def tasks_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/tasks…: many tasks at once."""
    return await respond(APIS, req, context)


@blueprint.function_name("task-group")
@blueprint.route("api/queue/v1/task-group/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def task_group_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/task-group/…: groups."""
    return await respond(APIS, req, context)


@blueprint.function_name("claim-work")
@blueprint.route("api/queue/v1/claim-work/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def claim_work_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/claim-work/…: long polls."""
    return await respond(APIS, req, context)


@blueprint.function_name("poll-task-url")
@blueprint.route("api/queue/v1/poll-task-url/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def poll_task_url_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/poll-task-url/…: signed URLs for workers that poll Azure queues themselves."""
    return await respond(APIS, req, context)


@blueprint.function_name("pending")
@blueprint.route("api/queue/v1/pending/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def pending_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/pending/…: how much waits."""
    return await respond(APIS, req, context)


@blueprint.function_name("task-queues")
@blueprint.route("api/queue/v1/task-queues/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def task_queues_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/task-queues…: pools, what waits and what runs in them."""
    return await respond(APIS, req, context)


@blueprint.function_name("provisioners")
@blueprint.route("api/queue/v1/provisioners/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def provisioners_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/provisioners…: provisioners, worker types, workers."""
    return await respond(APIS, req, context)


@blueprint.function_name("auth")
@blueprint.route("api/auth/v1/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def auth_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/api/auth/v1/…: clients, roles, scopes."""
    return await respond(APIS, req, context)


@blueprint.function_name("object")
@blueprint.route("api/object/v1/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def object_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/api/object/v1/…: data of `object` artifacts."""
    return await respond(APIS, req, context)


@blueprint.function_name("artifact-relay")
@blueprint.route("artifacts/{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def artifact_relay_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """/artifacts/relay/…: uploads of artifacts."""
    return await respond(APIS, req, context)


@blueprint.function_name("service")
@blueprint.route("{*rest}", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def service_family(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Everything else: the service's own endpoints, and what does not exist."""
    return await respond(APIS, req, context)
