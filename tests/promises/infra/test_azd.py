"""Microsoft's own azd, from an empty home to a deployed app, against a stub of Azure (tests/promises/infra/azure)."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.infra.azure.cloud import SUBSCRIPTION
from tests.promises.infra.azure.stage import AZD, Stage, stage
from tests.promises.infra.runbooks import OPERATIONS, blocks
from tools.local import package
from tools.local.state import ROOT

pytestmark = [
    pytest.mark.large,
    pytest.mark.skipif(AZD is None and "REQUIRE_AZURE_TOOLS" not in os.environ, reason="azd is not on the PATH"),
]
NEW = f"azd env new my-queue --subscription {SUBSCRIPTION} --location westeurope --no-prompt\n"
UP = f"{NEW}azd up --no-prompt"
SECRETS = {"root-access-token", "message-signing-keys", "access-token-keys"}


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made
        assert made.arm.unknown == [], "azd asked what the stub does not know"


def _values(azure: Stage) -> dict[str, str]:
    done = azure.run("azd env get-values")
    return dict(re.findall(r'^(\w+)="(.*)"$', done.stdout, re.MULTILINE))


def test_the_first_deployment_goes_by_the_readme_from_an_empty_home_to_the_smoke_test(azure: Stage) -> None:
    azure.cloud.unregistered.add("Microsoft.App")
    (block,) = re.findall(r"```sh\n(az login.*?)```", (ROOT / "infra" / "README.md").read_text(), re.DOTALL)
    block = block.replace(" && azd auth login", "")  # it is signed in: another program gives the tokens
    done = azure.run(block, SUBSCRIPTION=SUBSCRIPTION)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "smoke-test: https://" in done.stdout, "its output is shown"
    (app,) = azure.cloud.packages
    assert {name: len(versions) for name, versions in next(iter(azure.cloud.secrets.values())).items()} == (
        dict.fromkeys(SECRETS, 1)
    )
    assert not [name for name, value in _values(azure).items() if name.startswith("QUEUE_NEW_") and value]
    assert not azure.cloud.unregistered
    described = json.loads((azure.checkout / "infra" / "deployments" / "my-queue.json").read_text())["parameters"]
    assert described["alertEmails"] == {"value": "ops@example.com"}
    assert azure.cloud.fetched[app]["APP_VERSION"] == _values(azure)["QUEUE_APP_VERSION"]


def test_what_is_deployed_is_the_package_with_its_compiled_modules(azure: Stage) -> None:
    done = azure.run(UP, COMPILED="1")
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(io.BytesIO(next(iter(azure.cloud.packages.values())))) as put:
        names = set(put.namelist())
    own = {str(path) for path in package.product_files(ROOT)}
    assert names == own | {"shared/__pycache__/compiled.pyc"}


def test_a_notifier_is_deployed_with_a_package_of_its_own_where_it_is_switched_on(azure: Stage) -> None:
    done = azure.run(f"{UP}\n./dev deployment set notifyApp true\nazd provision --no-prompt\nazd deploy --no-prompt")
    assert done.returncode == 0, done.stdout + done.stderr
    names = {}
    for app, content in azure.cloud.packages.items():
        with zipfile.ZipFile(io.BytesIO(content)) as put:
            names["-notify-" in app] = set(put.namelist())
    assert names[True] >= {"function_app.py", "host.json", "notify/notices.py", "notify/sending.py"}
    assert not any(each.startswith("shared/") for each in names[True])
    assert not any(each.startswith("notify/") for each in names[False])


def test_keys_that_begin_with_a_dash_are_taken_over(azure: Stage) -> None:
    given = {"QUEUE_NEW_ROOT_ACCESS_TOKEN": f"-e{'r' * 42}", "QUEUE_NEW_MESSAGE_SIGNING_KEYS": f"--{'s' * 42}"}
    sets = "".join(f'azd env set "{name}={value}"\n' for name, value in given.items())
    done = azure.run(f"{NEW}{sets}azd up --no-prompt")
    assert done.returncode == 0, done.stdout + done.stderr
    (secrets,) = azure.cloud.secrets.values()
    assert secrets["root-access-token"] == [given["QUEUE_NEW_ROOT_ACCESS_TOKEN"]]
    assert secrets["message-signing-keys"] == [given["QUEUE_NEW_MESSAGE_SIGNING_KEYS"]]
    assert azure.run("azd env list --output json").stdout.count('"Name"') == 1


def test_hooks_that_run_before_the_subscription_is_known_say_how_it_is_given(azure: Stage) -> None:
    done = azure.run("azd env new my-queue --no-prompt && azd provision --no-prompt")
    assert done.returncode != 0
    assert "azd env set AZURE_SUBSCRIPTION_ID=ID AZURE_LOCATION=REGION" in done.stdout + done.stderr


def test_what_hands_did_is_undone_by_provisioning_without_azds_memory_alone(azure: Stage) -> None:
    # The second one is another deployment than the first: it no longer has the secrets that were made.
    assert azure.run(f"{UP} && azd provision --no-prompt").returncode == 0
    (app,) = azure.cloud.packages
    azure.cloud.settings(app)["LONG_POLL_SECONDS"] = "7"
    skipped = azure.run("azd provision --no-prompt")
    assert skipped.returncode == 0, skipped.stderr
    assert azure.cloud.settings(app)["LONG_POLL_SECONDS"] == "7", "azd skips what it has deployed last"
    done = azure.run("azd provision --no-prompt --no-state")
    assert done.returncode == 0, done.stdout + done.stderr
    assert azure.cloud.settings(app)["LONG_POLL_SECONDS"] == "20"
    assert "LONG_POLL_SECONDS" in done.stdout, "what would change is shown"


def test_what_is_dangerous_takes_a_word(azure: Stage) -> None:
    assert azure.run(UP).returncode == 0
    change = "./dev deployment set storagePublicAccess Disabled && azd provision --no-prompt"
    assert azure.run(change).returncode == 0
    opened = azure.run("./dev deployment set storagePublicAccess '' && azd provision --no-prompt")
    assert opened.returncode != 0
    assert "QUEUE_CONFIRM=doors azd provision" in opened.stdout + opened.stderr
    done = azure.run("azd provision --no-prompt", QUEUE_CONFIRM="doors")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_was_deployed_is_verified_with_the_variables_that_azd_has(azure: Stage) -> None:
    assert azure.run(UP).returncode == 0
    first = blocks(OPERATIONS)[0]
    (verify,) = (each for each in blocks(OPERATIONS) if "admin verify" in each)
    only = verify.replace("admin verify", "admin verify --only settings --only roles --only memory --only description")
    done = azure.run(first + only)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each["result"] for each in json.loads(done.stdout)} == {"holds"}
    (app,) = azure.cloud.packages
    azure.cloud.settings(app)["LONG_POLL_SECONDS"] = "7"
    done = azure.run(first + only)
    assert (done.returncode, "LONG_POLL_SECONDS is '7'" in done.stderr) == (1, True), done.stderr
