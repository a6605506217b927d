"""What Flex Consumption refuses, although the types allow it.

Sources: "Flex Consumption plan deprecations" of Microsoft's reference of app settings, and the limits in its article on
the plan. Since 2025 deprecated site properties are refused when the app is created ("… for Flex Consumption sites is
invalid. Please remove or rename them").
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from tools.local.deployments.memory import Instance
from tools.local.state import ROOT
from tools.local.templates.values import Deployed, Finding, Resource, Unknown, Value

SITE_CONFIG = {
    "alwaysOn": "instances are kept by functionAppConfig.scaleAndConcurrency.alwaysReady",
    "appSettings": "settings are a resource of their own here",
    "containerSize": "functionAppConfig.scaleAndConcurrency.instanceMemoryMB has it",
    "ftpsState": "there is no FTP",
    "functionAppScaleLimit": "functionAppConfig.scaleAndConcurrency.maximumInstanceCount has it",
    "javaVersion": "functionAppConfig.runtime has it",
    "linuxFxVersion": "functionAppConfig.runtime has it",
    "minimumElasticInstanceCount": "instances are kept by functionAppConfig.scaleAndConcurrency.alwaysReady",
    "netFrameworkVersion": "functionAppConfig.runtime has it",
    "powerShellVersion": "functionAppConfig.runtime has it",
    "preWarmedInstanceCount": "instances are kept by functionAppConfig.scaleAndConcurrency.alwaysReady",
    "pythonVersion": "functionAppConfig.runtime has it",
    "use32BitWorkerProcess": "there is no 32-bit worker",
    "windowsFxVersion": "the plan is Linux only",
}
SITE = {"containerSize", "isXenon", "hyperV"}
SETTINGS = {
    "AzureWebJobsDashboard",
    "ENABLE_ORYX_BUILD",
    "FUNCTIONS_EXTENSION_VERSION",
    "FUNCTIONS_MAX_HTTP_CONCURRENCY",
    "FUNCTIONS_WORKER_DYNAMIC_CONCURRENCY_ENABLED",
    "FUNCTIONS_WORKER_PROCESS_COUNT",
    "FUNCTIONS_WORKER_RUNTIME",
    "FUNCTIONS_WORKER_RUNTIME_VERSION",
    "SCM_DO_BUILD_DURING_DEPLOYMENT",
    "TZ",
    "WEBSITE_CONTENTAZUREFILECONNECTIONSTRING",
    "WEBSITE_CONTENTOVERVNET",
    "WEBSITE_CONTENTSHARE",
    "WEBSITE_DNS_SERVER",
    "WEBSITE_MAX_DYNAMIC_APPLICATION_SCALE_OUT",
    "WEBSITE_NODE_DEFAULT_VERSION",
    "WEBSITE_RUN_FROM_PACKAGE",
    "WEBSITE_SKIP_CONTENTSHARE_VALIDATION",
    "WEBSITE_TIME_ZONE",
    "WEBSITE_VNET_ROUTE_ALL",
}
HOST_STORAGE = {"credential", "clientId", "blobServiceUri", "queueServiceUri", "tableServiceUri"}
"""What a connection by identity may say after `AzureWebJobsStorage__`, of what is used here."""
PYTHON = {"3.10", "3.11", "3.12", "3.13", "3.14"}
MEMORY = {512, 2048, 4096}
INSTANCES = (40, 1000)
HTTP_CONCURRENCY = 1000
REGION_MEMORY_MB = 512_000
"""What all Flex Consumption apps of a subscription may take in a region together, unless Microsoft raises it."""
DELEGATION = "Microsoft.App/environments"
LEAST_SUBNET = 27


def problems(root: Deployed) -> Iterator[Finding]:
    """What is refused of the apps, settings and subnets of a deployment."""
    resources = {each.id: each for each in root.all_resources()}
    for each in resources.values():
        match each.type:
            case "Microsoft.Web/serverfarms":
                yield from _plan(each)
            case "Microsoft.Web/sites":
                yield from _site(each, resources)
            case "Microsoft.Web/sites/config":
                yield from _settings(each)
                yield from _memory(each, resources)


def _plan(plan: Resource) -> Iterator[Finding]:
    if plan.body.get("sku") != {"tier": "FlexConsumption", "name": "FC1"}:
        yield Finding(plan.place, "this is not the plan that is checked here: FlexConsumption, FC1")
    if plan.body["properties"].get("reserved") is not True:
        yield Finding(plan.place, "Flex Consumption is Linux: reserved has to be true")


def _site(site: Resource, resources: dict[str, Resource]) -> Iterator[Finding]:
    properties = site.body["properties"]
    for name in properties.get("siteConfig", {}).keys() & SITE_CONFIG.keys():
        yield Finding(site.place, f"Flex Consumption refuses siteConfig.{name}: {SITE_CONFIG[name]}")
    for name in properties.keys() & SITE:
        yield Finding(site.place, f"Flex Consumption refuses {name}")
    config = properties.get("functionAppConfig", {})
    runtime, scale = config.get("runtime", {}), config.get("scaleAndConcurrency", {})
    if runtime.get("name") != "python" or runtime.get("version") not in PYTHON:
        yield Finding(site.place, f"Flex Consumption has no runtime {runtime}")
    memory, most = scale.get("instanceMemoryMB"), scale.get("maximumInstanceCount")
    if memory not in MEMORY:
        yield Finding(site.place, f"Flex Consumption has no instances of {memory} MB")
    if not INSTANCES[0] <= most <= INSTANCES[1]:
        yield Finding(site.place, f"maximumInstanceCount has to be {INSTANCES[0]} to {INSTANCES[1]}, not {most}")
    elif memory in MEMORY and memory * most > REGION_MEMORY_MB:
        yield Finding(site.place, f"{most} instances of {memory} MB are more than a region's quota by default")
    http = scale.get("triggers", {}).get("http", {}).get("perInstanceConcurrency", 1)
    if not 1 <= http <= HTTP_CONCURRENCY:
        yield Finding(site.place, f"perInstanceConcurrency has to be 1 to {HTTP_CONCURRENCY}, not {http}")
    ready = sum(group.get("instanceCount", 0) for group in scale.get("alwaysReady", []))
    if ready > most:
        yield Finding(site.place, f"{ready} instances are always ready, of {most} at the most")
    groups = {"http", "blob", "durable", *(f"function:{name}" for name in function_names())}
    for group in scale.get("alwaysReady", []):
        if group["name"] not in groups:
            yield Finding(site.place, f"alwaysReady is about {group['name']}, which is none of the app's functions")
    yield from _package(site, config, resources)
    yield from _subnet(site, properties.get("virtualNetworkSubnetId"), resources)


def _package(site: Resource, config: dict[str, Value], resources: dict[str, Resource]) -> Iterator[Finding]:
    container = str(config["deployment"]["storage"]["value"])
    named = re.fullmatch(r"https://(\w+)\.blob\.[\w.]+/([-\w]+)", container)
    known = {
        tuple(each.name.split("/default/"))
        for each in resources.values()
        if each.type.endswith("blobServices/containers")
    }
    if named is None or named.groups() not in known:
        yield Finding(site.place, f"packages are to be kept in {container}, which is no container of this deployment")


def _subnet(site: Resource, subnet: Value, resources: dict[str, Resource]) -> Iterator[Finding]:
    if subnet is None or isinstance(subnet, Unknown):
        return
    network, _, name = str(subnet).partition("/subnets/")
    found = [
        each["properties"]
        for each in (resources[network].body["properties"]["subnets"] if network in resources else [])
        if each["name"] == name
    ]
    if not found:
        yield Finding(site.place, f"there is no subnet {subnet}")
        return
    delegated = [each["properties"]["serviceName"] for each in found[0].get("delegations", [])]
    if delegated != [DELEGATION]:
        yield Finding(
            resources[network].place, f"the app's subnet has to be delegated to {DELEGATION}, not {delegated}"
        )
    if ipaddress.ip_network(found[0]["addressPrefix"]).prefixlen > LEAST_SUBNET:
        yield Finding(resources[network].place, f"the app's subnet needs a /{LEAST_SUBNET} at least")


def _settings(settings: Resource) -> Iterator[Finding]:
    for name, value in settings.body["properties"].items():
        if name in SETTINGS:
            yield Finding(settings.place, f"Flex Consumption refuses the setting {name}")
        host, _, suffix = name.partition("__")
        if host == "AzureWebJobsStorage" and suffix not in HOST_STORAGE:
            yield Finding(settings.place, f"{name} is no setting of a connection by identity")
        if host.lower() == "azurewebjobsstorage" and host != "AzureWebJobsStorage":
            yield Finding(settings.place, f"{name} is written AzureWebJobsStorage…")
        if not isinstance(value, str | Unknown):
            yield Finding(settings.place, f"the setting {name} has to be a string, not {value!r}")


def _memory(settings: Resource, resources: dict[str, Resource]) -> Iterator[Finding]:
    site = next(each for each in resources.values() if settings.id.startswith(f"{each.id}/") and "sites" in each.type)
    scale = site.body["properties"]["functionAppConfig"]["scaleAndConcurrency"]
    instance = Instance(
        memory_mb=scale["instanceMemoryMB"],
        concurrency=scale["triggers"]["http"]["perInstanceConcurrency"],
        settings=settings.body["properties"],
    )
    if shortage := instance.shortage():
        yield Finding(site.place, shortage)


def function_names() -> set[str]:
    """Names of the app's functions."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "functions").rglob("*.py"))
    return set(re.findall(r'function_name\(\s*"([a-z-]+)"', text))
