"""Endpoints of the object service that public clients use for `object` artifacts (its own reference, v1)."""

from __future__ import annotations

from shared.api.endpoint import Endpoint
from shared.api.models.objects import (
    CreateUploadRequest,
    CreateUploadResponse,
    DownloadObjectRequest,
    DownloadObjectResponse,
    FinishUploadRequest,
    GetObjectResponse,
)
from shared.api.table import service

PREFIX = "/api/object/v1"
_CATEGORY = "Objects"

ENDPOINTS = (
    *service.ENDPOINTS,
    Endpoint(
        name="createUpload",
        method="PUT",
        route="/upload/<name>",
        title="Begin upload of a new object",
        description="Agrees on a way to upload the data of an `object` artifact. May be called again, to propose "
        "other ways or to renew a URL.",
        category=_CATEGORY,
        scopes="object:upload:<projectId>:<name>",
        input=CreateUploadRequest,
        input_schema="create-upload-request",
        output=CreateUploadResponse,
        output_schema="create-upload-response",
    ),
    Endpoint(
        name="finishUpload",
        method="POST",
        route="/finish-upload/<name>",
        title="Mark an upload as complete",
        description="Says that all data has been uploaded, and what its hashes are.",
        category=_CATEGORY,
        scopes="object:upload:<projectId>:<name>",
        input=FinishUploadRequest,
        input_schema="finish-upload-request",
    ),
    Endpoint(
        name="startDownload",
        method="PUT",
        route="/start-download/<name>",
        title="Download object data",
        description="Chooses one of the ways to download that the client accepts.",
        category=_CATEGORY,
        scopes="object:download:<name>",
        input=DownloadObjectRequest,
        input_schema="download-object-request",
        output=DownloadObjectResponse,
        output_schema="download-object-response",
    ),
    Endpoint(
        name="object",
        method="GET",
        route="/metadata/<name>",
        title="Get an object's metadata",
        description="What is known of an object, without its data.",
        category=_CATEGORY,
        scopes="object:download:<name>",
        output=GetObjectResponse,
        output_schema="get-object-response",
    ),
    Endpoint(
        name="download",
        method="GET",
        route="/download/<name>",
        title="Get an object's data",
        description="Redirects to the data of an object.",
        category=_CATEGORY,
        scopes="object:download:<name>",
        success=303,
    ),
)
