"""docs/incidents/region.md is followed to the letter, by the real azd, with a stack for each region's app and
account."""

from __future__ import annotations

import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.parts.local.stacks import free_ports
from tests.promises.infra.azure.cloud import SUBSCRIPTION
from tests.promises.infra.azure.proxy import Answer, Request
from tests.promises.infra.azure.stage import Stage, stage
from tests.promises.infra.runbooks import OPERATIONS, REGION, blocks
from tests.promises.infra.test_azd import pytestmark as conditions
from tools.local import state
from tools.local.stack import App, Stack, StackOptions

pytestmark = [*conditions, pytest.mark.timeout(400)]
_BEGIN = """
python - <<'EOF'
import datetime, json, os, pathlib, taskcluster
now = datetime.datetime.now(datetime.UTC)
queue = taskcluster.Queue(taskcluster.optionsFromEnvironment())
about = {"name": "a", "description": "b", "owner": "c@example.com", "source": "https://example.com"}
times = {"created": now.isoformat(), "deadline": (now + datetime.timedelta(hours=1)).isoformat()}
queue.createTask(os.environ["TASK_ID"], {"taskQueueId": "a/b", **times, "payload": {}, "metadata": about})
(claim,) = queue.claimWork("a/b", {"workerGroup": "g", "workerId": "w", "tasks": 1})["tasks"]
pathlib.Path("claim.json").write_text(json.dumps(claim["credentials"]))
EOF
"""
_COMPLETE = """
python - <<'EOF'
import json, os, pathlib, taskcluster
options = {**taskcluster.optionsFromEnvironment(), "credentials": json.loads(pathlib.Path("claim.json").read_text())}
print(taskcluster.Queue(options).reportCompleted(os.environ["TASK_ID"], 0)["status"]["state"])
EOF
"""
TASK = "fN1SbArXTPSVFNUvaOlinQ"


class Regions:
    """A stack for each app of the stage, which starts when a package is put."""

    def __init__(self, azure: Stage, cleanup: ExitStack) -> None:
        self._azure, self._cleanup, self._lock = azure, cleanup, threading.RLock()
        self.stacks: dict[str, Stack] = {}
        self.accounts: dict[str, str] = {}
        azure.arm.serve = self._serve
        self._publish, azure.cloud.publish = azure.cloud.publish, self._published  # type: ignore[method-assign]
        self._deploy, azure.cloud.deploy = azure.cloud.deploy, self._deployed  # type: ignore[method-assign]

    def lose(self, *, storage: bool) -> None:
        """Loses the region of the only app so far, with or without the account."""
        ((app, stack),) = self.stacks.items()
        self._azure.cloud.stopped.add(app)
        if storage:
            stack.stop()

    def _deployed(self, name: str, given: Any) -> dict[str, Any]:
        made = self._deploy(name, given)
        with self._lock:
            for app in self._azure.cloud.fetched.keys() - self.stacks.keys():
                self.stacks[app] = self._prepare(app)
        return made

    def _prepare(self, app: str) -> Stack:
        settings = self._azure.cloud.settings(app)
        account = settings["STORAGE_ACCOUNT_NAME"]
        if taken := self.accounts.get(account):
            return next(each for each in self.stacks.values() if each.azurite.connection_string == taken)
        (group,) = (each["id"].split("/")[4] for each in self._azure.cloud.named("Microsoft.Web/sites", app))
        (vault,) = (each["name"] for each in self._azure.cloud.of_type("Microsoft.KeyVault/vaults", group))
        secrets = {name: versions[-1] for name, versions in self._azure.cloud.secrets[vault].items()}
        given = {name.replace("-", "_").upper(): value for name, value in secrets.items()}
        ports = free_ports()
        options = StackOptions(
            ports, in_memory=True, with_host=False, root_url=_url(app), app_settings={**given, **_own(settings)}
        )
        self._cleanup.callback(shutil.rmtree, state.folder(ports.api), ignore_errors=True)
        made = self._cleanup.enter_context(Stack.start(options))
        self.accounts[account] = made.azurite.connection_string
        (self._azure.home.parent / "accounts" / account).write_text(made.azurite.connection_string)
        return made

    def _published(self, app: str, package: bytes) -> None:
        self._publish(app, package)
        stack = self.stacks[app]
        if stack.places:  # on the account that was another app's
            own = {"TASKCLUSTER_ROOT_URL": _url(app), **_own(self._azure.cloud.settings(app))}
            stack.replace_app(stack.options.ports.api, App(state.ROOT, own))
        else:
            stack.start_host()

    def _serve(self, app: str, request: Request, path: str) -> Answer:
        url = f"http://127.0.0.1:{self.stacks[app].options.ports.api}{request.path}"
        headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        asked = urllib.request.Request(url, request.body or None, headers, method=request.method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as given:
                return Answer(given.status, given.read(), _headers(given.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read(), _headers(error.headers))
        except urllib.error.URLError:
            return Answer(413, b"", {})  # the host has ended the connection instead of reading the body


def _url(app: str) -> str:
    return f"https://{app}.azurewebsites.net"


def _own(settings: Mapping[str, str]) -> dict[str, str]:
    return {"LONG_POLL_SECONDS": "2", "APP_VERSION": settings["APP_VERSION"]}


def _headers(given: Message) -> dict[str, str]:
    kept = {name.lower(): value for name, value in given.items()}
    return {
        name: value for name, value in kept.items() if name not in ("connection", "content-length", "transfer-encoding")
    }


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made
        assert made.arm.unknown == [], "azd asked what the stub does not know"


def _page(*, geo_redundant: bool) -> str:
    """Returns the commands of the page for one of the two kinds of storage; only the name of the export differs."""
    kept = [
        each
        for each in blocks(REGION)
        if not re.search("backup restore" if geo_redundant else "failover|deployment grant", each)
    ]
    assert len(kept) == len(blocks(REGION)) - (1 if geo_redundant else 2)
    return "\n".join(kept).replace("FOLDER=backup-2026-01-31", "FOLDER=last")


@pytest.mark.parametrize("geo_redundant", [False, True])
def test_a_lost_region_is_left_by_the_page(azure: Stage, geo_redundant: bool) -> None:
    first = blocks(OPERATIONS)[0]
    new = f"azd env new my-queue --subscription {SUBSCRIPTION} --location westeurope --no-prompt\n"
    with ExitStack() as cleanup:
        regions = Regions(azure, cleanup)
        done = azure.run(f"{new}azd up --no-prompt")
        assert done.returncode == 0, done.stdout + done.stderr
        if geo_redundant:
            sku = "./dev deployment set profileOverrides.storageSku '\"Standard_GZRS\"'\nazd provision --no-prompt"
            assert azure.run(sku).returncode == 0
        done = azure.run(f"{first}{_BEGIN}", TASK_ID=TASK)
        assert done.returncode == 0, done.stdout + done.stderr
        if not geo_redundant:
            export = next(each for each in blocks(OPERATIONS) if "backup export" in each)
            done = azure.run(first + export.replace("backup-2026-01-31", "last"))
            assert done.returncode == 0, done.stdout + done.stderr
        regions.lose(storage=not geo_redundant)
        done = azure.run(f"{first}\n{_page(geo_redundant=geo_redundant)}\n{_COMPLETE}", TASK_ID=TASK)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith("completed\n"), "a worker that is told the new root URL keeps its claim"
        assert len(regions.accounts) == (1 if geo_redundant else 2)
        assert any(event.startswith("failed over") for event in azure.cloud.events) == geo_redundant
        secrets = list(azure.cloud.secrets.values())
        assert [each["root-access-token"] for each in secrets[1:]] == [secrets[0]["root-access-token"]]
        assert secrets[1]["access-token-keys"] == secrets[0]["access-token-keys"]
