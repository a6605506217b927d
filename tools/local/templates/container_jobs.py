"""Workers as Container Apps jobs: mistakes that the types allow, and that KEDA or the platform would report only when a
worker should start.

The scale rule must be exactly the one in docs/workers-azure.md, since Microsoft does not document in one place what the
platform takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from shared.app.apis import QUEUE
from shared.base.types import TASK_QUEUE_PATTERN
from shared.queue.pools import endpoints as task_queues
from shared.queue.pools.models import TaskQueueLoadResponse
from tools.local.templates.meaning import before
from tools.local.templates.values import Finding, Resource, Value

JOB = "Microsoft.App/jobs"
RULE = {"authMode": "apiKey", "method": "query", "keyParamName": "bewit"}
"""How the rule is signed: the secret of the rule is added to the URL as the parameter `bewit`."""
_METADATA = {"url", "valueLocation", "targetValue", *RULE}
_STEP, _LARGEST = 0.25, 4.0
"""vCPU that the plan without reserved machines offers; each comes with 2 Gi of memory."""
_ROUTE = next(each.route for each in task_queues.ENDPOINTS if each.name == "taskQueueLoad")


def problems(job: Resource, deployed: list[Resource]) -> Iterator[Finding]:
    """What is wrong with a job."""
    for text in _texts(job, deployed):
        yield Finding(job.place, text)


def _texts(job: Resource, deployed: list[Resource]) -> Iterator[str]:
    properties = job.body["properties"]
    configuration = properties["configuration"]
    (container,) = properties["template"]["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    yield from _secrets(job, configuration, container)
    yield from _roles(job, deployed)
    yield from _size(container["resources"])
    if configuration["replicaRetryLimit"] != 0:
        yield "the job retries replicas: the queue does that, and a retry would be a worker that nobody counted"
    if configuration["triggerType"] != "Event":
        yield f"a worker is started by load, not by {configuration['triggerType']}"
        return
    trigger = configuration["eventTriggerConfig"]
    if trigger["replicaCompletionCount"] != trigger["parallelism"]:
        yield "an execution ends when all of its replicas have: replicaCompletionCount has to be the parallelism"
    if trigger["scale"]["minExecutions"] > trigger["scale"]["maxExecutions"]:
        yield "minExecutions is more than maxExecutions"
    if configuration["replicaTimeout"] <= int(environment.get("WORKER_IDLE_TIMEOUT") or 0):
        yield "replicaTimeout would end a worker before it has been idle for long enough"
    rules = trigger["scale"]["rules"]
    if len(rules) != 1:
        yield "of several rules the largest decides: there has to be one"
        return
    yield from _rule(rules[0], trigger["parallelism"], environment)


def _rule(rule: Mapping[str, Value], parallelism: int, environment: Mapping[str, str]) -> Iterator[str]:
    if rule["type"] != "metrics-api":
        yield f"{rule['type']} cannot read the load of a task queue: metrics-api can"
    metadata = rule["metadata"]
    for name in metadata.keys() ^ _METADATA:
        yield f"the rule's metadata {'lack' if name in _METADATA else 'have an unknown'} {name}"
        return
    for name, value in metadata.items():
        if not isinstance(value, str):
            yield f"the rule's {name} has to be a text: KEDA takes no other metadata"
            return
    for name, value in RULE.items():
        if metadata[name] != value:
            yield f"the rule's {name} has to be {value}, not {metadata[name]}"
    if metadata["valueLocation"] not in TaskQueueLoadResponse.model_fields:
        yield f"the answer has no {metadata['valueLocation']}"
    if metadata["targetValue"] != str(parallelism):
        yield f"targetValue has to be what an execution works on at a time, {parallelism}"
    if [each["triggerParameter"] for each in rule["auth"]] != ["apiKey"]:
        yield "the rule's secret has to be its apiKey"
    yield from _url(metadata["url"], environment)


def _url(url: str, environment: Mapping[str, str]) -> Iterator[str]:
    root_url, task_queue_id = environment.get("TASKCLUSTER_ROOT_URL"), environment.get("WORKER_TASK_QUEUE_ID") or ""
    if re.fullmatch(TASK_QUEUE_PATTERN, task_queue_id) is None:
        yield f"{task_queue_id!r} is no task queue"
    if "?" in url:
        yield "a query in the rule's URL breaks its signature"
        return
    wanted = f"{root_url}{QUEUE.prefix}{_ROUTE}".replace("<taskQueueId>", task_queue_id)
    if unquote(url) != wanted:
        yield f"the rule asks for {url}, which is not the load of what the worker claims: {wanted}"
    elif url == wanted:
        yield "the task queue in the rule's URL needs %2F for its slash, as in what the bewit signs"


def _secrets(job: Resource, configuration: Value, container: Value) -> Iterator[str]:
    identities = job.body["identity"]["userAssignedIdentities"]
    known = {each["name"] for each in configuration["secrets"]}
    rules = configuration.get("eventTriggerConfig", {}).get("scale", {}).get("rules", [])
    used = [each["secretRef"] for each in container["env"] if "secretRef" in each]
    used += [each["secretRef"] for rule in rules for each in rule["auth"]]
    for name in used:
        if name not in known:
            yield f"there is no secret {name}"
    for name in sorted(known.difference(used)):
        yield f"the secret {name} is not used"
    for each in configuration["secrets"]:
        if "value" in each:
            yield f"the secret {each['name']} is in the template: it belongs into the vault"
        elif each.get("identity") not in identities:
            yield f"the secret {each['name']} is fetched by an identity that the job does not have"
    for each in configuration.get("registries") or []:
        if each.get("identity") not in identities:
            yield f"images are pulled from {each['server']} by an identity that the job does not have"
    kept = {each["identity"] for each in configuration.get("identitySettings", []) if each["lifecycle"] == "None"}
    if identities.keys() - kept:
        yield "tasks in the container could use the job's identity: its lifecycle has to be None"
    for each in container["env"]:
        if re.search(r"TOKEN|KEY|PASSWORD|BEWIT", each["name"]) and "secretRef" not in each:
            yield f"{each['name']} has to come from a secret"


def _roles(job: Resource, deployed: list[Resource]) -> Iterator[str]:
    earlier = before(job)
    for role in deployed:
        own = role.type == "Microsoft.Authorization/roleAssignments" and role.within is job.within
        if own and role.id.lower() not in earlier:
            yield f"the job does not wait for the role assignment at {role.place}"


def _size(resources: Mapping[str, Value]) -> Iterator[str]:
    cpu = float(resources["cpu"])
    if not _STEP <= cpu <= _LARGEST or cpu % _STEP:
        yield f"there are no containers with {cpu:g} vCPU, only multiples of {_STEP:g} up to {_LARGEST:g}"
    elif resources["memory"] != f"{cpu * 2:g}Gi":
        yield f"a container with {cpu:g} vCPU has {cpu * 2:g}Gi of memory, not {resources['memory']}"
