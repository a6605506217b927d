"""Azure's management plane, as far as azd and `./dev admin verify` ask it, and the site that packages are put by."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.promises.infra.azure.cloud import (
    PERSON,
    ROOT,
    SITE,
    SUBSCRIPTION,
    TENANT,
    Cloud,
    NotFoundError,
    template_hash,
)
from tests.promises.infra.azure.proxy import Answer, Request

LOCATIONS = ("westeurope", "northeurope", "eastus2")
_ROUTE = tuple[str, str, Callable[..., Any]]


def token() -> str:
    """Returns an access token as azd reads it, which says who has signed in."""
    claims = {"oid": PERSON, "tid": TENANT, "unique_name": "person@example.com"}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}."


def answered(status: int, content: Any) -> Answer:
    """Returns an answer in JSON."""
    return Answer(status, json.dumps(content).encode(), {"content-type": "application/json"})


class Arm:
    """Answers requests to Azure's hosts."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.asked: list[str] = []
        """Method, host and path of each request."""
        self.serve: Callable[[str, Request, str], Answer] = self._small
        """What an app answers; by default as little as the smoke test asks."""
        self.unknown: list[str] = []
        """Requests that this stub does not know: a test that has some has seen nothing."""

    def __call__(self, request: Request) -> Answer:
        """Returns the answer to a request; 404 for what does not exist."""
        url = urlsplit(request.path)
        self.asked.append(f"{request.method} {request.host}{url.path}")
        for method, pattern, answer in self._ROUTES:
            found = re.fullmatch(pattern, f"{request.host}{url.path}", re.IGNORECASE)
            if found and re.fullmatch(method, request.method):
                try:
                    made = answer(self, request, *found.groups())
                    return made if isinstance(made, Answer) else answered(*made)
                except NotFoundError as error:
                    return answered(404, {"error": {"code": "ResourceNotFound", "message": str(error)}})
                except AssertionError as error:
                    return answered(400, {"error": {"code": "InvalidTemplate", "message": str(error)}})
        self.unknown.append(f"{request.method} {request.host}{request.path}")
        return answered(404, {"error": {"code": "NotPlayed", "message": request.path}})

    def _token(self, _: Request) -> tuple[int, Any]:
        return 200, {"status": "success", "token": token(), "expiresOn": "2036-01-01T00:00:00Z"}

    def _extensions(self, _: Request) -> tuple[int, Any]:
        return 200, {"extensions": []}

    def _tenants(self, _: Request) -> tuple[int, Any]:
        return 200, {"value": [{"id": f"/tenants/{TENANT}", "tenantId": TENANT, "displayName": "Example"}]}

    def _subscriptions(self, _: Request) -> tuple[int, Any]:
        return 200, {"value": [self._subscription_()]}

    def _subscription(self, _: Request) -> tuple[int, Any]:
        return 200, self._subscription_()

    def _subscription_(self) -> dict[str, Any]:
        return {"id": ROOT, "subscriptionId": SUBSCRIPTION, "displayName": "Example", "tenantId": TENANT}

    def _locations(self, _: Request) -> tuple[int, Any]:
        found = [
            {"id": f"{ROOT}/locations/{name}", "name": name, "displayName": name, "regionalDisplayName": name}
            for name in LOCATIONS
        ]
        return 200, {"value": [{**each, "metadata": {"regionType": "Physical"}} for each in found]}

    def _me(self, _: Request) -> tuple[int, Any]:
        return 200, {"id": PERSON, "displayName": "Person", "userPrincipalName": "person@example.com"}

    def _hash(self, request: Request) -> tuple[int, Any]:
        return 200, {"templateHash": template_hash(json.loads(request.body))}

    def _validate(self, request: Request, name: str) -> tuple[int, Any]:
        self._cloud.evaluated(
            {key: each["value"] for key, each in json.loads(request.body)["properties"]["parameters"].items()}
        )
        return 200, {"name": name, "properties": {"provisioningState": "Succeeded"}}

    def _deploy(self, request: Request, name: str) -> tuple[int, Any]:
        return 201, self._cloud.deploy(name, json.loads(request.body))

    def _deployed(self, _: Request, name: str) -> tuple[int, Any]:
        if name not in self._cloud.deployments:
            raise NotFoundError(name)
        return 200, self._cloud.deployments[name]

    def _deployments(self, _: Request) -> tuple[int, Any]:
        return 200, {"value": list(self._cloud.deployments.values())[::-1]}

    def _operations(self, _: Request, __: str) -> tuple[int, Any]:
        return 200, {"value": []}

    def _in_group(self, request: Request, group: str) -> tuple[int, Any]:
        wanted = re.search(r"tagValue eq '([^']*)'", parse_qs(urlsplit(request.path).query).get("$filter", [""])[0])
        inside = f"{ROOT}/resourceGroups/{group}/providers/".lower()
        found = [
            {name: each[name] for name in ("id", "name", "type", "location", "tags")}
            for key, each in self._cloud.resources.items()
            if key.startswith(inside) and each["type"].count("/") == 1
        ]
        return 200, {"value": [each for each in found if not wanted or wanted[1] in each["tags"].values()]}

    def _list_settings(self, _: Request, app: str) -> tuple[int, Any]:
        return 200, {"properties": self._cloud.settings(app)}

    def _references(self, _: Request, app: str) -> tuple[int, Any]:
        return 200, references(self._cloud, app)

    def _refresh(self, _: Request, app: str) -> tuple[int, Any]:
        self._cloud.denied.discard(app)
        self._cloud.fetch(app)
        return 200, references(self._cloud, app)

    def _assignments(self, request: Request) -> tuple[int, Any]:
        who = re.search(r"assignedTo\('([^']*)'\)", parse_qs(urlsplit(request.path).query)["$filter"][0])
        assert who is not None
        found = self._cloud.of_type("Microsoft.Authorization/roleAssignments")
        return 200, {"value": [each for each in found if each["properties"]["principalId"] == who[1]]}

    def _resource(self, request: Request, path: str) -> tuple[int, Any]:
        found = self._cloud.resources.get(path.lower())
        if found is None:
            raise NotFoundError(path)
        if request.method == "HEAD":
            return 204, {}
        if found["type"] == SITE:
            state = "Stopped" if found["name"] in self._cloud.stopped else "Running"
            return 200, {**found, "properties": {**found["properties"], "state": state}}
        return 200, found

    def _app(self, request: Request, app: str, path: str) -> Answer:
        """Returns the app's own answer, if it runs; otherwise what the front end answers."""
        if not self._cloud.runs(app):
            return answered(403 if app in self._cloud.stopped else 404, {"error": "no app runs here"})
        return self.serve(app, request, path)

    def _publish(self, request: Request, app: str) -> tuple[int, Any]:
        self._cloud.publish(app, request.body)
        return 202, "package-1"

    def _published(self, _: Request, __: str) -> tuple[int, Any]:
        return 200, {"id": "package-1", "status": 4, "complete": True, "active": True}

    def _small(self, app: str, _: Request, path: str) -> Answer:
        settings = self._cloud.fetched[app]
        if "@Microsoft" in settings["ACCESS_TOKEN_KEYS"]:
            return answered(404, "")  # the host has loaded no function
        build = {"version": "0.9.0", "build": settings["APP_VERSION"]}
        found = {"ping": {}, "__version__": build}.get(path)
        return answered(404 if found is None else 200, found)

    _ARM = r"management\.azure\.com"
    _DEPLOYMENTS = rf"{_ARM}{ROOT}/providers/Microsoft\.Resources/deployments"
    _APP = rf"{_ARM}/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Web/sites/([^/]+)/config"
    _ROUTES: tuple[_ROUTE, ...] = (
        ("POST", "/token", _token),
        ("GET", r"aka\.ms/azd/extensions/registry", _extensions),
        ("GET", rf"{_ARM}/tenants", _tenants),
        ("GET", rf"{_ARM}/subscriptions", _subscriptions),
        ("GET", rf"{_ARM}{ROOT}", _subscription),
        ("GET", rf"{_ARM}{ROOT}/locations", _locations),
        ("GET", r"graph\.microsoft\.com/v1\.0/me", _me),
        ("POST", rf"{_ARM}/providers/Microsoft\.Resources/calculateTemplateHash", _hash),
        ("POST", rf"{_DEPLOYMENTS}/([^/]+)/validate", _validate),
        ("PUT", rf"{_DEPLOYMENTS}/([^/]+)", _deploy),
        ("GET", rf"{_DEPLOYMENTS}/?", _deployments),
        ("GET", rf"{_DEPLOYMENTS}/([^/]+)", _deployed),
        ("GET", rf"{_DEPLOYMENTS}/([^/]+)/operations", _operations),
        ("GET", rf"{_ARM}{ROOT}/resourceGroups/([^/]+)/resources", _in_group),
        ("POST", rf"{_APP}/appsettings/list", _list_settings),
        ("GET", rf"{_APP}/configreferences/appsettings", _references),
        ("POST", rf"{_APP}/configreferences/appsettings/refresh", _refresh),
        ("GET", rf"{_ARM}/.*/providers/Microsoft\.Authorization/roleAssignments", _assignments),
        ("GET|HEAD", rf"{_ARM}({ROOT}/.*)", _resource),
        (".*", r"([\w-]+)\.azurewebsites\.net/api/queue/v1/(.*)", _app),
        ("POST", r"([\w-]+)\.scm\.azurewebsites\.net/api/publish", _publish),
        ("GET", r"([\w-]+)\.scm\.azurewebsites\.net/api/deployments/[\w-]+", _published),
    )


def references(cloud: Cloud, app: str) -> dict[str, Any]:
    """Returns the states of an app's references, as Azure shows them."""
    kind = "Microsoft.Web/sites/config/configreferences"
    found = [{"name": name, "type": kind, "properties": {"status": state}} for name, state, _ in cloud.references(app)]
    return {"value": found}
