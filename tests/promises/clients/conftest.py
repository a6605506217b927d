"""Stacks for tests with public clients: one that routes as a local host does, one as deployed Functions do."""

import shutil
from collections.abc import Iterator

import pytest
from taskgraph.util import taskcluster as tools

from tests.parts.local.stacks import free_ports
from tests.promises.clients.deployment import Deployment
from tests.promises.host.conftest import QUICK
from tests.promises.host.events import SUBSCRIPTION, Events
from tools.local import state
from tools.local.stack import Stack, StackOptions

LOCAL_PATHS = pytest.param(False, marks=pytest.mark.large, id="local paths")
"""Parameters for stacks with paths of a local host; those of other folders, which test the same, have them."""


@pytest.fixture(scope="package", params=[LOCAL_PATHS, pytest.param(True, id="azure paths")])
def deployment(request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """Yields a running deployment. Tests use names of their own in it for clients, roles and pools."""
    options = StackOptions(free_ports(), azure_paths=request.param, in_memory=True, subscriptions=(SUBSCRIPTION,))
    try:
        with Stack.start(options) as stack:
            yield Deployment.of(stack)
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


@pytest.fixture
def events(deployment: Deployment) -> Iterator[Events]:
    """Yields what the deployment publishes from now on."""
    received = Events(deployment.service_bus)
    yield received
    received.close()


@pytest.fixture(scope="package")
def undisturbed() -> Iterator[Deployment]:
    """Yields a deployment with no other calls than the test's own, so that what is stored can be compared."""
    options = StackOptions(free_ports(), in_memory=True, app_settings=QUICK)
    try:
        with Stack.start(options) as stack:
            yield Deployment.of(stack)
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


@pytest.fixture
def as_root(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets taskgraph's functions in this process call this deployment as root."""
    for name in ("TASKCLUSTER_PROXY_URL", "TASKCLUSTER_CERTIFICATE", "TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TASKCLUSTER_ROOT_URL", deployment.root_url)
    monkeypatch.setenv("TASKCLUSTER_CLIENT_ID", deployment.root["clientId"])
    monkeypatch.setenv("TASKCLUSTER_ACCESS_TOKEN", deployment.root["accessToken"])
    caches = (tools.get_root_url, tools.get_taskcluster_client, tools.get_session)
    for cache in caches:
        cache.cache_clear()
    yield
    tools.get_session().close()
    for cache in caches:
        cache.cache_clear()
