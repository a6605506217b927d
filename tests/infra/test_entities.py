"""The infrastructure makes what the code uses, and the code uses what the infrastructure makes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from local import infra_entities
from local.state import ROOT
from shared.events.exchanges import TOPICS
from tests.infra import bicep

ENTITIES = bicep.document("entities.json")
DECLARED = {
    "tables": ("Microsoft.Storage/storageAccounts/tableServices/tables", "entities.tables"),
    "queues": ("Microsoft.Storage/storageAccounts/queueServices/queues", "entities.queues"),
    "containers": ("Microsoft.Storage/storageAccounts/blobServices/containers", "entities.containers"),
    "topics": ("Microsoft.ServiceBus/namespaces/topics", "entities.topics"),
}


def test_the_list_is_up_to_date() -> None:
    assert infra_entities.FILE.read_text() == infra_entities.document(), "run: python -m local.infra_entities"


def test_the_templates_make_the_whole_list() -> None:
    assert ENTITIES.keys() == {*DECLARED, "platformContainers", "hostContainers"}
    for kind, (resource_type, source) in DECLARED.items():
        ((name, _),) = bicep.resources(resource_type)
        file, _, symbol = name.partition(": ")
        line = re.search(rf"^resource {symbol} .*$", (bicep.INFRA / file).read_text(), re.MULTILINE)
        assert line is not None
        assert source in line[0], kind


def test_every_table_and_container_that_the_code_names_is_in_the_list() -> None:
    named = {value for path in (ROOT / "shared").rglob("*.py") for value in _first_arguments(path)}
    assert named <= {*ENTITIES["tables"], *ENTITIES["containers"]}
    assert {"Tasks", "Groups", "Pools", "Expiry"} <= named


def _first_arguments(path: Path) -> set[str]:
    """What calls of tables and blobs in a module name first, as far as it is a constant of that or another module."""
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
    source = path if not module else ROOT / "shared" / "storage" / f"{module}.py"
    match = re.search(rf'^{name} = "([^"]+)"', source.read_text(), re.MULTILINE)
    return match[1] if match else None


def test_every_queue_trigger_has_its_queue_and_its_poison_queue() -> None:
    text = "".join(path.read_text() for path in (ROOT / "functions").glob("*.py"))
    triggers = set(re.findall(r"queue_trigger\([^)]*queue_name=(\w+)", text))
    messages = (ROOT / "shared" / "storage" / "messages.py").read_text()
    queues = {re.search(rf'^{name} = "([^"]+)"', messages, re.MULTILINE)[1] for name in triggers}  # type: ignore[index]  # fails if absent, as it should
    assert {*queues, *(f"{queue}-poison" for queue in queues)} == set(ENTITIES["queues"])


def test_topics_are_the_exchanges() -> None:
    assert ENTITIES["topics"] == list(TOPICS)


def test_names_are_legal() -> None:
    for queue in ENTITIES["queues"]:
        assert re.fullmatch(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*", queue)
    for container in (*ENTITIES["containers"], *ENTITIES["platformContainers"], *ENTITIES["hostContainers"]):
        assert re.fullmatch(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*", container)
    for table in ENTITIES["tables"]:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]{2,62}", table)
    for topic in ENTITIES["topics"]:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", topic)


def test_lifecycle_rules_are_about_containers_that_exist() -> None:
    text = (bicep.INFRA / "modules" / "storage.bicep").read_text()
    prefixes = re.findall(r"prefixMatch: \[\s*((?:'[^']+'\s*)+)\]", text)
    named = {prefix for group in prefixes for prefix in re.findall(r"'([^'/]+)/'", group)}
    assert named
    assert named <= set(ENTITIES["containers"])
