"""docs/operations.md and docs/incidents/: their commands run, and they name what there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.parts.local.stacks import free_ports
from tests.promises.admin.operators import OLD_KEY, Operator
from tools.local.state import ROOT

GUIDE = ROOT / "docs" / "operations.md"
PUBLIC_CLI = Path(__file__).parent / "public_cli.py"
INCIDENTS = sorted((ROOT / "docs" / "incidents").glob("*.md"))
PLAYED = ("az", "azd", "gh")
_PLAY = f"""#!/bin/sh
echo "$(basename "$0") $*" >> "$PLAY"
case "$*" in
    "keyvault secret show"*"--name root-access-token "*) echo "$PLAYED_TOKEN" ;;
    "keyvault secret show"*) echo {OLD_KEY} ;;
    "repo view "*) echo owner/queue ;;
    "release download "*)
        eval "folder=\\${{$#}}"
        echo a >"$folder/queue.zip"
        (cd "$folder" && sha256sum queue.zip >SHA256SUMS)
        ;;
    "env get-value TASKCLUSTER_ROOT_URL") echo "$PLAYED_ROOT_URL" ;;
    "env get-value "*) echo "the-$3" ;;
esac
"""


def blocks(*pages: Path) -> list[str]:
    """Returns the shell commands of pages (by default the guide, and then the incidents), block by block."""
    found = []
    for page in pages or (GUIDE, *INCIDENTS):
        text = page.read_text()
        found += [match[2] for match in re.finditer(r"^( *)```sh\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)]
    return [textwrap.dedent(each) for each in found]


@pytest.mark.large
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [GUIDE, *(each for each in INCIDENTS if each.stem != "region")], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_run(page: Path, operator: Operator) -> None:
    """The commands of a page run one block after the other, as an operator would run them; Azure's own tools are
    replaced by doubles. tests/promises/infra/test_region.py runs the page about a lost region."""
    tools = operator.folder / "tools"
    tools.mkdir()
    for name in PLAYED:
        (tools / name).write_text(_PLAY)
        (tools / name).chmod(0o755)
    task_id = operator.create()
    assert operator.claim()
    operator.create_client(f"test/{page.stem}")
    (tools / "taskcluster").write_text(f'#!/bin/sh\nexec {sys.executable} {PUBLIC_CLI} "$@"\n')
    (tools / "taskcluster").chmod(0o755)
    operator.result("worker-client", "create", operator.pool)
    shell = {
        **{name: value for name, value in operator.environment.items() if not name.startswith("TASKCLUSTER_")},
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PLAY": str(operator.folder / "played"),
        "PLAYED_ROOT_URL": operator.environment["TASKCLUSTER_ROOT_URL"],
        "PLAYED_TOKEN": operator.environment["TASKCLUSTER_ACCESS_TOKEN"],
    }
    examples = {
        "TASK_ID": task_id,
        "GROUP_ID": task_id,
        "STOPPED": operator.create(),
        "POOL": operator.pool,
        "TASK_QUEUE_ID": operator.pool,
        "WORKER_GROUP": "g",
        "WORKER_ID": "w",
        "CLIENT_ID": f"test/{page.stem}",
        "FOLDER": str(operator.folder / "backup"),
    }
    descriptions = operator.folder / "deployments"
    descriptions.mkdir()
    shutil.copy(ROOT / "infra" / "deployments" / "example.json", descriptions / "the-AZURE_ENV_NAME.json")
    ports = iter(free_ports().api for _ in blocks())
    first, *others = blocks(GUIDE)
    for block in ("", *(others if page == GUIDE else blocks(page))):
        script = first + block
        for name, value in examples.items():
            script = re.sub(rf"^{name}=\S+$", f"{name}={value}", script, flags=re.MULTILINE)
        script = (
            script.replace("./dev package", "true")
            .replace("admin verify)", "admin verify --only answers)")
            .replace("./dev admin", f"{sys.executable} -m tools.admin")
        )
        script = script.replace(
            "./dev deployment", f"{sys.executable} -m tools.local.deployments --folder {descriptions}"
        )
        if "./dev drill" in script:
            script = script.replace("./dev drill", f"{sys.executable} -m tools.local.drill --into {next(ports)}")
        script = script.replace("backup restore", "backup restore --overwrite")  # the guide's account is a fresh one
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=shell,
            input="y\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert operator.queue().status(task_id)["status"]["state"] == "running"
    if page != GUIDE:
        return
    played = (operator.folder / "played").read_text()
    rotated = re.findall(r"--name ([a-z-]+) --value=(\S+)", played)
    assert ("root-access-token-previous", shell["PLAYED_TOKEN"]) in rotated
    values = dict(rotated)
    assert re.fullmatch(r"[A-Za-z0-9_-]{44}", values["root-access-token"])
    for name in ("message-signing-keys", "access-token-keys"):
        assert re.fullmatch(rf"[A-Za-z0-9_=-]{{44}},{OLD_KEY}", values[name])
