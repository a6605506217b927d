"""The example of workers on virtual machines: a template of known types, files that are what their readers take."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes without types

from tools.admin.worker_clients import secret_names, worker_client_id
from tools.local.state import ROOT
from tools.local.templates import syntax
from tools.local.templates.deployment import Template
from tools.local.templates.values import Deployed, Later

FOLDER = ROOT / "docs" / "examples" / "virtual-machines"
TASK_QUEUE_ID = "My_Team/linux"
GIVEN = {
    "taskQueueId": TASK_QUEUE_ID,
    "rootUrl": "https://queue.example.com",
    "keyVaultName": "kv-mine",
    "imageId": "/subscriptions/s/images/i",
    "subnetId": "/subscriptions/s/subnets/n",
    "sshPublicKey": "ssh-ed25519 AAAA",
    "location": "westeurope",
}

TEXT, NUMBER, FLAG, TABLE = "text", "number", "flag", "table"
GENERIC_WORKER = {
    "accessToken": TEXT,
    "allowedHighMemoryDurationSecs": NUMBER,
    "availabilityZone": TEXT,
    "cachesDir": TEXT,
    "certificate": TEXT,
    "cleanUpTaskDirs": FLAG,
    "clientId": TEXT,
    "createObjectArtifacts": FLAG,
    "disableReboots": FLAG,
    "downloadsDir": TEXT,
    "ed25519SigningKeyLocation": TEXT,
    "enableInteractive": FLAG,
    "idleTimeoutSecs": NUMBER,
    "livelogExecutable": TEXT,
    "livelogExposePort": NUMBER,
    "maxTaskRunTime": NUMBER,
    "numberOfTasksToRun": NUMBER,
    "provisionerId": TEXT,
    "publicIP": TEXT,
    "requiredDiskSpaceMegabytes": NUMBER,
    "rootURL": TEXT,
    "sentryProject": TEXT,
    "shutdownMachineOnIdle": FLAG,
    "shutdownMachineOnInternalError": FLAG,
    "taskclusterProxyExecutable": TEXT,
    "taskclusterProxyPort": NUMBER,
    "tasksDir": TEXT,
    "workerGroup": TEXT,
    "workerId": TEXT,
    "workerLocation": TEXT,
    "workerType": TEXT,
    "workerTypeMetadata": TABLE,
    "wstAudience": TEXT,
    "wstServerURL": TEXT,
}
"""What generic-worker's configuration may have, in all of its engines and on all platforms, from release 71 to 95
(workers/generic-worker/gwconfig/config.go): others it refuses."""
NEEDED = {
    "accessToken",
    "cachesDir",
    "clientId",
    "downloadsDir",
    "ed25519SigningKeyLocation",
    "livelogExecutable",
    "provisionerId",
    "publicIP",
    "rootURL",
    "tasksDir",
    "workerGroup",
    "workerId",
    "workerType",
}
KINDS = {TEXT: str, NUMBER: int, FLAG: bool, TABLE: dict}


def deployed(**changes: Any) -> Deployed:
    file = syntax.read(FOLDER / "scaleset.bicep")
    return Template(file, {**GIVEN, **changes}, Deployed(file, "machines", "rg-mine")).run()


@pytest.mark.parametrize("spot", [False, True])
def test_the_template_is_of_microsofts_types(spot: bool) -> None:
    found = deployed(spot=spot)
    assert list(map(str, found.all_findings())) == []
    (role,) = (each for each in found.all_resources() if each.type == "Microsoft.Authorization/roleAssignments")
    assert role.id.partition("/providers/Microsoft.Authorization/")[0].endswith(secret_names(TASK_QUEUE_ID)[0])
    assert role.id.lower() in {each.id.lower() for each in found.resources if each.symbol in found.closure("scaleSet")}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("overprovision: false", "overProvision: false", "overprovision"),
        ("storageAccountType: 'StandardSSD_LRS'", "storageAccountType: 'Standard_SSD'", "Standard_SSD"),
        ("mode: 'Manual'", "mode: 'None'", "has to be one of"),
        ("orchestrationMode: 'Uniform'", "orchestrationMode: 1", "orchestrationMode"),
    ],
)
def test_a_mistake_in_it_is_found(old: str, new: str, words: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "docs" / "examples" / "vm")
    shutil.copytree(ROOT / "infra", tmp_path / "infra")
    path = tmp_path / "docs" / "examples" / "vm" / "scaleset.bicep"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    file = syntax.read(path)
    found = Template(file, GIVEN, Deployed(file, "machines", "rg-mine")).run()
    assert any(words in str(each) for each in found.all_findings())


def test_cloud_init_has_every_value_filled_in() -> None:
    text = (FOLDER / "cloud-init.yaml").read_text()
    template = (FOLDER / "scaleset.bicep").read_text()
    assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"'\{(\w+)\}'", template))
    document = yaml.safe_load(re.sub(r"\{(\w+)\}", r"\1", text))
    paths = {each["path"] for each in document["write_files"]}
    unit = next(each["content"] for each in document["write_files"] if each["path"].endswith(".service"))
    assert re.findall(r"ExecStart=(\S+)", unit) == ["/usr/local/sbin/start-worker"]
    assert "/usr/local/sbin/start-worker" in paths
    script = (FOLDER / "start-worker.sh").read_text()
    assert "/usr/local/share/generic-worker.json" in script
    assert "/usr/local/share/generic-worker.json" in paths
    environment = document["write_files"][0]
    assert environment["permissions"] == "0600"
    given = set(re.findall(r"^(\w+)='", environment["content"], re.MULTILINE))
    assert {name for name in given if f"${name}" not in script} == set()


def test_no_secret_is_in_what_machines_are_made_from() -> None:
    (machines,) = (each for each in deployed().all_resources() if each.type.endswith("virtualMachineScaleSets"))
    data = machines.body["properties"]["virtualMachineProfile"]["osProfile"]["customData"]
    assert isinstance(data, Later)
    assert f"secrets/{secret_names(TASK_QUEUE_ID)[0]}" in data, "where the token is, not the token"


def written(folder: Path) -> dict[str, Any]:
    """Returns the configuration that start-worker.sh writes, with an Azure that is played."""
    text = (FOLDER / "start-worker.sh").read_text()
    etc, share, played = folder / "etc", folder / "share", folder / "bin"
    for each in (etc, share, played):
        each.mkdir()
    text = text.replace("/etc/generic-worker", str(etc)).replace("/usr/local/share", str(share))
    shutil.copy(FOLDER / "generic-worker.json", share)
    (etc / "deployment.env").write_text(
        f"ROOT_URL='https://queue.example.com'\nTASK_QUEUE_ID='{TASK_QUEUE_ID}'\nWORKER_GROUP='virtual-machines'\n"
        "SECRET_URL='https://kv-mine.vault.azure.net/secrets/s'\nIDENTITY_CLIENT_ID='i'\n"
    )
    for name, script in {
        "curl": 'case "$*" in\n*identity*) echo \'{"access_token": "bearer"}\' ;;\n*privateIp*) echo 10.0.0.4 ;;\n'
        "*instance*) echo vmss-abc_12 ;;\n"
        '*api-version=7.4*) grep -q "Bearer bearer" && echo \'{"value": "it\\u0027s a \\"token\\""}\' ;;\nesac\n',
        "iptables": "exit 0\n",
        "generic-worker": 'echo "$*" >> "$PLAY/calls"\n',
    }.items():
        (played / name).write_text(f"#!/bin/sh\n{script}")
        (played / name).chmod(0o755)
    environment = {"PATH": f"{played}{os.pathsep}{os.environ['PATH']}", "PLAY": str(folder)}
    subprocess.run(["sh", "-c", text], env=environment, check=True)
    assert (etc / "config.json").stat().st_mode & 0o77 == 0, "tasks cannot read the token"
    made, run = (folder / "calls").read_text().splitlines()
    assert made.startswith("new-ed25519-keypair --file ")
    assert run == f"run --config {etc}/config.json"
    config: dict[str, Any] = json.loads((etc / "config.json").read_text())
    return config


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq, which the machines have, is not here")
def test_generic_worker_takes_the_configuration(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert set(config) <= set(GENERIC_WORKER)
    assert not [name for name, value in config.items() if type(value) is not KINDS[GENERIC_WORKER[name]]]
    assert not [name for name in NEEDED if not config.get(name)]
    assert (config["provisionerId"], config["workerType"]) == tuple(TASK_QUEUE_ID.split("/"))
    assert config["clientId"] == worker_client_id(TASK_QUEUE_ID)
    assert config["accessToken"] == 'it\'s a "token"'
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,38}", config["workerId"])
    assert config["publicIP"] == "10.0.0.4", "or its live log has no address"
    assert config["idleTimeoutSecs"] > 0
    assert config["shutdownMachineOnIdle"], "or it never ends"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not here")
@pytest.mark.parametrize(("unresolved", "running", "calls"), [(0, 0, 0), (3, 0, 1), (3, 3, 0), (1, 3, 0), (50, 3, 1)])
def test_machines_are_started_for_what_is_unresolved_and_removed_when_they_have_shut_down(
    tmp_path: Path, unresolved: int, running: int, calls: int
) -> None:
    (tmp_path / "curl").write_text(f'#!/bin/sh\ncat > "$PLAY/asked"\necho \'{{"unresolvedTasks": {unresolved}}}\'\n')
    (tmp_path / "az").write_text(
        '#!/bin/sh\ncase "$2" in\nlist-instances) printf "4\\n7\\n" ;;\n'
        f'show) echo {running} ;;\n*) echo "$*" >> "$PLAY/calls" ;;\nesac\n'
    )
    for name in ("curl", "az"):
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PLAY": str(tmp_path),
        "LOAD_URL": "https://q/api/queue/v1/task-queues/a%2Fb/load",
        "BEWIT": "secret",
        "GROUP": "g",
        "SCALE_SET": "s",
        "MOST": "20",
        "CAPACITY": "1",
    }
    subprocess.run(["sh", str(FOLDER / "scale.sh")], env=environment, check=True)
    done = (tmp_path / "calls").read_text().splitlines()
    assert done[0].startswith("vmss delete-instances")
    assert done[0].endswith("--instance-ids 4 7")
    assert len(done) == 1 + calls
    if calls:
        assert f"--new-capacity {min(unresolved, 20)} " in done[1]
    assert (tmp_path / "asked").read_text() == 'url = "https://q/api/queue/v1/task-queues/a%2Fb/load?bewit=secret"\n'
