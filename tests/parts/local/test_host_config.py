"""host.json, app settings and connections."""

import json
import logging
from typing import Any

import pytest

from tools.local.host.config import TRACE, HostConfig, QueueOptions, parse_host_json
from tools.local.host.connections import Connections
from tools.local.host.errors import HostError
from tools.local.host.settings import resolve
from tools.local.host.times import Times


def host_json(**sections: Any) -> HostConfig:
    """Returns the configuration of a host.json with these sections."""
    return parse_host_json(json.dumps({"version": "2.0", **sections}))


def test_the_defaults_are_the_platforms() -> None:
    config = host_json()
    assert config == HostConfig()
    assert (config.route_prefix, config.function_timeout, config.log_level) == ("api", 1800, logging.INFO)
    assert config.queues == QueueOptions(
        batch_size=16,
        new_batch_threshold=8,
        visibility_timeout=0,
        max_dequeue_count=5,
        max_polling_interval=60,
        message_encoding="base64",
    )


def test_app_settings_replace_values_of_host_json() -> None:
    text = json.dumps({"version": "2.0", "extensions": {"queues": {"batchSize": 16, "maxDequeueCount": 7}}})
    settings = {
        "AzureFunctionsJobHost__extensions__queues__batchSize": "8",
        "AZUREFUNCTIONSJOBHOST__Extensions__Queues__maxdequeuecount": "9",
        "AzureFunctionsJobHost__extensions__http__routePrefix": "v1",
        "AzureFunctionsJobHost__functionTimeout": "00:01:00",
        "extensions__queues__batchSize": "32",
    }
    config = parse_host_json(text, settings)
    assert (config.queues.batch_size, config.queues.new_batch_threshold, config.queues.max_dequeue_count) == (8, 4, 9)
    assert (config.route_prefix, config.function_timeout) == ("v1", 60)


def test_everything_that_the_host_acts_on_is_read() -> None:
    queues = {
        "batchSize": 32,
        "visibilityTimeout": "00:00:10",
        "maxDequeueCount": 7,
        "maxPollingInterval": "00:00:02",
        "messageEncoding": "None",
    }
    config = host_json(
        functionTimeout="00:10:00",
        logging={"logLevel": {"default": "Trace", "Azure.Core": "Warning"}, "applicationInsights": {}},
        extensions={"http": {"routePrefix": "/v1/"}, "queues": queues},
        extensionBundle={},
        telemetryMode="OpenTelemetry",
    )
    assert (config.route_prefix, config.function_timeout, config.log_level) == ("v1", 600, TRACE)
    assert config.queues == QueueOptions(
        batch_size=32,
        new_batch_threshold=16,
        visibility_timeout=10,
        max_dequeue_count=7,
        max_polling_interval=2,
        message_encoding="none",
    )
    assert host_json(functionTimeout="-1").function_timeout is None
    assert host_json(extensions={"queues": {"newBatchThreshold": 0}}).queues.new_batch_threshold == 0


@pytest.mark.parametrize(
    ("sections", "names"),
    [
        ({"version": "1.0"}, "version"),
        ({"customHandler": {}}, "customHandler"),
        ({"extensions": {"queue": {}}}, r"extensions\.queue"),
        ({"extensions": {"http": {"maxConcurrentRequests": 5}}}, r"extensions\.http\.maxConcurrentRequests"),
        ({"extensions": {"queues": {"batchsize": 5}}}, r"extensions\.queues\.batchsize"),
        ({"extensions": {"queues": {"batchSize": 33}}}, "batchSize"),
        ({"extensions": {"queues": {"batchSize": True}}}, "batchSize"),
        ({"extensions": {"queues": {"maxDequeueCount": "5"}}}, "maxDequeueCount"),
        ({"extensions": {"queues": {"maxPollingInterval": 2}}}, "maxPollingInterval"),
        ({"extensions": {"queues": {"maxPollingInterval": "2 s"}}}, "maxPollingInterval"),
        ({"extensions": {"queues": {"maxPollingInterval": "00:00:00"}}}, "maxPollingInterval"),
        ({"extensions": {"queues": {"visibilityTimeout": "8.00:00:00"}}}, "visibilityTimeout"),
        ({"extensions": {"queues": {"messageEncoding": "hex"}}}, "messageEncoding"),
        ({"extensions": {"http": {"routePrefix": 1}}}, "routePrefix"),
        ({"extensions": []}, "extensions"),
        ({"functionTimeout": "00:00:00"}, "functionTimeout"),
        ({"logging": {"logLevel": {"default": "loud"}}}, "loud"),
    ],
)
def test_what_is_wrong_or_not_supported_is_named(sections: dict[str, Any], names: str) -> None:
    with pytest.raises(HostError, match=names):
        host_json(**sections)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_what_is_no_host_json_is_refused(text: str) -> None:
    with pytest.raises(HostError, match=r"host\.json"):
        parse_host_json(text)


def test_a_binding_may_name_settings() -> None:
    assert resolve("a-%X%-%Y%", {"X": "1", "Y": "2"}, "f") == "a-1-2"
    assert resolve("100%", {}, "f") == "100%"
    with pytest.raises(HostError, match="function f: the app setting Z"):
        resolve("%Z%", {}, "f")


async def test_a_connection_is_a_string_or_an_identity(azurite_string: str) -> None:
    settings = {
        "Plain": azurite_string,
        "AzureWebJobsPrefixed": azurite_string,
        "Identity__queueServiceUri": "https://account.queue.core.windows.net",
        "Broken": "AccountKey=c2VjcmV0",
    }
    connections = Connections(settings, Times())
    for name in ("Plain", "Prefixed"):
        assert connections.queue_service(name, "f").url.startswith("http://127.0.0.1:10001/devstoreaccount1")
    assert connections.queue_service("Plain", "g") is connections.queue_service("Plain", "f")
    assert connections.queue_service("Identity", "f").url == "https://account.queue.core.windows.net/"
    with pytest.raises(HostError, match=r"function f: .*Absent.*Absent__queueServiceUri"):
        connections.queue_service("Absent", "f")
    with pytest.raises(HostError, match="function f: Broken") as raised:
        connections.queue_service("Broken", "f")
    assert "c2VjcmV0" not in str(raised.value)
    await connections.close()


@pytest.fixture
def azurite_string() -> str:
    """Returns a connection string to an account where nothing listens."""
    endpoint = "QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1"
    return f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;{endpoint};"
