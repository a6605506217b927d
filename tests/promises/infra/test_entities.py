"""The infrastructure makes what the code uses, and the code uses what the infrastructure makes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from shared.queue.events.exchanges import TOPICS
from shared.queue.tasks.internal_messages import BODIES
from tests.promises.infra import templates
from tools.local import infra_entities
from tools.local.state import ROOT

ENTITIES = templates.document("entities.json")
DECLARED = {
    "tables": "Microsoft.Storage/storageAccounts/tableServices/tables",
    "queues": "Microsoft.Storage/storageAccounts/queueServices/queues",
    "containers": "Microsoft.Storage/storageAccounts/blobServices/containers",
    "topics": "Microsoft.ServiceBus/namespaces/topics",
}


def test_the_list_is_up_to_date() -> None:
    assert infra_entities.FILE.read_text() == infra_entities.document(), "run: python -m tools.local.infra_entities"


def test_the_templates_make_the_whole_list() -> None:
    assert ENTITIES.keys() == {*DECLARED, "platformContainers", "hostContainers"}
    for kind, resource_type in DECLARED.items():
        wanted = [*ENTITIES[kind]]
        if kind == "containers":
            wanted += [*ENTITIES["platformContainers"], *ENTITIES["hostContainers"]]
        made = [each.name.rpartition("/")[2] for each in templates.resources(resource_type, "small, bare")]
        assert sorted(made) == sorted(wanted)


def test_every_table_and_container_that_the_code_names_is_in_the_list() -> None:
    named = {value for path in (ROOT / "shared").rglob("*.py") for value in _first_arguments(path)}
    assert named <= {*ENTITIES["tables"], *ENTITIES["containers"]}
    assert {"Tasks", "Groups", "Pools", "Expiry"} <= named


def _first_arguments(path: Path) -> set[str]:
    """Returns the first arguments of a module's calls of tables and blobs, if they are constants."""
    tree = ast.parse(path.read_text())
    methods = {"get", "query", "transact", "upload", "download", "properties", "commit_blocks", "list_paths"}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            owner = ast.unparse(node.func.value)
            if node.args and re.search(r"(tables|blobs)$", owner) and (value := _constant(path, node.args[0])):
                found.add(value)
    return found


def _constant(path: Path, argument: ast.expr) -> str | None:
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    text = ast.unparse(argument)
    if not re.fullmatch(r"(\w+\.)?[A-Z_]+", text):
        return None
    module, _, name = text.rpartition(".")
    source = path if not module else ROOT / "shared" / "store" / f"{module}.py"
    match = re.search(rf'^{name} = "([^"]+)"', source.read_text(), re.MULTILINE)
    return match[1] if match else None


def test_every_queue_trigger_has_its_queue_and_its_poison_queue() -> None:
    text = (ROOT / "functions" / "queue_triggers.py").read_text()  # its import reads the settings of an app
    queues = {queue for queue, body in BODIES.items() if f"    {body.__name__}: (" in text}
    assert {*queues, *(f"{queue}-poison" for queue in queues)} == set(ENTITIES["queues"])


def test_topics_are_the_exchanges() -> None:
    assert ENTITIES["topics"] == list(TOPICS)


def test_lifecycle_rules_are_about_containers_that_exist() -> None:
    rules = templates.resource("Microsoft.Storage/storageAccounts/managementPolicies")["properties"]["policy"]["rules"]
    named = {prefix.rstrip("/") for rule in rules for prefix in rule["definition"]["filters"]["prefixMatch"]}
    assert named
    assert named <= set(ENTITIES["containers"])
