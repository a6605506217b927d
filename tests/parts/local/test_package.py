"""The package: what is in it, and that it is enough to run the whole service."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pathspec
import pytest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient
from rich.console import Console

from tests.parts.local.packages import NEEDS_PYTHON
from tests.parts.local.stacks import free_ports
from tests.promises.infra import templates
from tools.local import bootstrap, console_vendor, demo, locks, package, sbom, state
from tools.local.stack import Stack, StackOptions
from tools.local.state import ROOT


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> package.Package:
    return package.make(tmp_path_factory.mktemp("sources"), dependencies=False)


def test_it_holds_the_app_and_nothing_else(sources: package.Package, tmp_path: Path) -> None:
    names = package.unpack(sources.zip, tmp_path)
    assert {name.partition("/")[0] for name in names} == set(package.PRODUCT)
    assert sources.bill is None
    assert not [name for name in names if "__pycache__" in name or "test" in name.lower()]
    assert {f"console/vendor/{name}" for name in console_vendor.LIBRARIES} <= set(names)
    assert not [name for name in names if name.endswith(bootstrap.STAMP)]
    assert (tmp_path / "function_app.py").read_bytes() == (ROOT / "function_app.py").read_bytes()
    notifier = package.make(tmp_path / "other", dependencies=False, app=package.NOTIFIER)
    names = package.unpack(notifier.zip, tmp_path / "notifier")
    assert set(names) == {
        "function_app.py",
        "host.json",
        *(f"notify/{each}.py" for each in ("__init__", "notices", "sending")),
    }


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path in package.product_files(ROOT):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, root / path)
    first = package.make(tmp_path / "first", dependencies=False, root=root)
    (root / "function_app.py").touch()
    second = package.make(tmp_path / "second", dependencies=False, root=root)
    assert first.sha256 == second.sha256
    (root / "function_app.py").write_text("changed")
    assert package.make(tmp_path / "third", dependencies=False, root=root).sha256 != first.sha256


def test_a_checkout_that_is_not_set_up_gives_no_package(tmp_path: Path) -> None:
    for name in package.PRODUCT:
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "console").unlink()
    with pytest.raises(package.PackageError, match=r"preact.js.*\n.*tools.local.console_vendor"):
        package.make(tmp_path / "output", dependencies=False, root=tmp_path)
    assert not (tmp_path / "output").exists()


def test_what_set_up_makes_is_not_in_the_repository() -> None:
    listing = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout == ""


def test_no_lock_names_a_package_of_the_one_that_it_includes() -> None:  # pip refuses a second version
    locked = [locks.requirements(ROOT / name) for name, _, includes in locks.LOCKS if includes or name == locks.APP]
    app, *others = ({each.partition("==")[0] for each in lock} for lock in locked)
    assert len(others) == 2 and not any(app & each for each in others)


def test_core_tools_upload_the_same_files() -> None:
    """.funcignore leaves exactly the files that the package has, which Core Tools would upload."""
    ignored = pathspec.GitIgnoreSpec.from_lines((ROOT / ".funcignore").read_text().splitlines())
    listing = subprocess.run(
        ["git", "ls-files"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    present = {path for path in listing.stdout.splitlines() if (ROOT / path).is_file()}
    left = {path for path in present if not ignored.match_file(path)}
    assert left == {str(path) for path in package.product_files(ROOT)} & present
    for never in (
        "local.settings.json",
        ".venv/bin/python",
        "tools/node_modules/x",
        "shared/__pycache__/a.pyc",
        ".azure/x",
    ):
        assert ignored.match_file(never), never


def _locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Returns the packages of a lock file, each with its version and marker, and the hashes of its files."""
    text = (ROOT / name).read_text()
    blocks = re.findall(
        r"^([a-z0-9-]+==[^\n]*?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
    )
    rest = re.sub(r"^(#|-r ).*\n", "", text, flags=re.MULTILINE)
    assert len(re.findall(r"^\S", rest, re.MULTILINE)) == len(blocks), f"{name} has lines without hashes"
    return {first: (first, sorted(re.findall(r"[0-9a-f]{64}", hashes))) for first, hashes in blocks}


def _direct(name: str) -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*)", (ROOT / name).read_text(), re.MULTILINE))


def test_every_package_is_locked_with_hashes_and_the_app_has_the_versions_that_are_tested() -> None:
    app, more = _locked("requirements.txt"), _locked("requirements/dev.txt")
    assert not app.keys() & more.keys(), "it includes the app's"
    everything = {**app, **more}
    assert _locked("requirements/notify.txt").items() <= everything.items()
    assert _direct("requirements/app.in") <= {line.partition("==")[0] for line in app}
    assert _direct("requirements/dev.in") <= {line.partition("==")[0] for line in everything}
    assert not {"pytest", "uvicorn", "mypy"} & {line.partition("==")[0] for line in app}
    assert _direct("requirements/audit.in") <= {line.partition("==")[0] for line in _locked("requirements/audit.txt")}
    for file in (path.name for path in ROOT.glob("*.*") if path.name.startswith(("requirements", "constraints"))):
        assert "://" not in (ROOT / file).read_text(), f"{file}: the index is whatever pip is configured with"


@pytest.mark.parametrize(
    "file", ["tools/local/bootstrap.py", "tools/local/package.py", "tests/parts/local/python313.py"]
)
def test_the_set_up_and_the_package_run_no_code_of_what_they_install(file: str) -> None:
    assert set(bootstrap.LOCKED) == {"--require-hashes", "--no-deps", "--only-binary=:all:"}
    installs = re.findall(r"run_quietly\(\[\*pip, (.*)\]", (ROOT / file).read_text())
    assert installs
    for arguments in installs:
        assert re.search(r"\*(bootstrap\.)?LOCKED\b", arguments), arguments


def test_no_npm_package_runs_anything_when_it_is_installed() -> None:
    packages = json.loads((ROOT / "tools/package-lock.json").read_text())["packages"]
    assert [name for name, about in packages.items() if about.get("hasInstallScript")] == []


@pytest.mark.parametrize("file", [".github/workflows/ci.yml", "worker/Dockerfile", "worker/README.md"])
def test_other_installations_take_locked_and_built_files_alone(file: str) -> None:
    text = re.sub(r"\\\n\s*", "", (ROOT / file).read_text())
    installs = re.findall(r"pip (?:install|sync)\b(.*)", text)
    assert installs
    for arguments in installs:
        assert {"--require-hashes", "--only-binary"} <= set(re.findall(r"--[a-z-]+", arguments)), arguments
        assert "requirements" in arguments


def test_known_vulnerabilities_are_looked_for_in_the_locks_of_what_is_deployed() -> None:
    audit = re.findall(r"-m pip_audit (.*)", (ROOT / ".github/workflows/ci.yml").read_text())
    audited = {name for arguments in audit for name in re.findall(r"-r (\S+)", arguments)}
    assert audited == {"requirements/notify.txt", "worker/requirements.txt"}, "the first includes the app's"
    for arguments in audit:
        assert {"--require-hashes", "--disable-pip", "--strict"} <= set(arguments.split())


def test_a_bill_of_materials() -> None:
    folder = Path(pytest.__file__).parent.parent
    bill = sbom.document(folder, "1.2.3")
    assert bill == sbom.document(folder, "1.2.3")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    pytest_itself = next(part for part in bill["components"] if part["name"] == "pytest")
    assert pytest_itself["purl"] == f"pkg:pypi/pytest@{pytest.__version__}"
    assert pytest_itself["licenses"]
    references = [part["bom-ref"] for part in bill["components"]]
    assert len(references) == len(set(references))
    assert bill["dependencies"][0]["dependsOn"] == references


@NEEDS_PYTHON
@pytest.mark.large
def test_dependencies_are_the_locked_ones_and_no_others(unpacked: Path) -> None:
    bill = json.loads((unpacked / "bill.json").read_text())
    found = {part["name"]: part["version"] for part in bill["components"]}
    lines = re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    for name, version in found.items():
        assert (name, version) in lines
    assert not {"pytest", "hypothesis", "uvicorn", "taskcluster", "typer", "mypy", "tree-sitter"} & found.keys()


@pytest.fixture(scope="module")
def stack(unpacked: Path, interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yields a stack whose host knows nothing of this checkout but a copy of the local host."""
    elsewhere = tmp_path_factory.mktemp("host")
    shutil.copytree(ROOT / "tools" / "local", elsewhere / "tools" / "local")
    options = StackOptions(
        free_ports(),
        in_memory=True,
        subscriptions=(demo.SUBSCRIPTION,),
        times={"take": demo.TAKE_SECONDS},
        app_dir=unpacked,
        host_python=interpreter,
        host_dir=elsewhere,
        app_settings={**demo.SHORT_TIMES, "PYTHONPATH": str(unpacked / package.SITE_PACKAGES)},
    )
    try:
        with Stack.start(options) as running:
            yield running
    finally:
        shutil.rmtree(state.folder(options.ports.api), ignore_errors=True)


@NEEDS_PYTHON
@pytest.mark.large
def test_the_main_job_runs_from_the_package(stack: Stack) -> None:
    assert not (stack.options.host_dir / "shared").exists(), "there is no other copy of the app to import"
    console = Console(file=io.StringIO(), width=160)
    assert asyncio.run(demo.Demo(stack, console).run()) == []
    _it_has_made_nothing_that_the_infrastructure_does_not(stack)


def _it_has_made_nothing_that_the_infrastructure_does_not(stack: Stack) -> None:
    """Checks that all that was made on the first need is declared in the infrastructure, except pools' queues."""
    entities = templates.document("entities.json")
    connection = stack.azurite.connection_string
    with TableServiceClient.from_connection_string(connection) as tables:
        made = {table.name for table in tables.list_tables()}
    assert made
    assert made <= set(entities["tables"])
    with QueueServiceClient.from_connection_string(connection) as queues:
        names = {queue.name for queue in queues.list_queues()}
    own = {name for name in names if not name.startswith("pending-")}
    assert names != own
    assert own <= set(entities["queues"])
    with BlobServiceClient.from_connection_string(connection) as blobs:
        containers = {container.name for container in blobs.list_containers()}
    assert containers <= {*entities["containers"], "azure-webjobs-hosts", "azure-webjobs-secrets"}


def test_package_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.local.cli", "package", "--sources", "-o", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"queue\.zip  [\d,]+ bytes  sha256:[0-9a-f]{64}$", done.stdout.strip())
    assert (tmp_path / "queue.zip").exists()
