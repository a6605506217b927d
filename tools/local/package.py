"""`./dev package`: the zip that is deployed: the app, and what it depends on for Python 3.13 on Linux.

The same sources and locked versions give the same bytes, so a package can be compared with what runs.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.local import bootstrap, console_vendor, loads, python313, sbom, settings_docs
from tools.local.state import ROOT

PRODUCT = ("function_app.py", "host.json", "pyproject.toml", "requirements.txt", "console", "functions", "shared")
"""All of the repository that is deployed; pyproject.toml has the version that the app shows."""


@dataclass(frozen=True)
class App:
    """A program that is deployed: the name of its package, its part of the repository, its packages' lock, and settings
    with which it is imported."""

    name: str
    product: Sequence[str]
    requirements: str
    settings: Mapping[str, str]


QUEUE = App("queue", PRODUCT, "requirements.txt", settings_docs.EXAMPLE_VALUES)
NOTIFIER = App("notify", ("notify",), "requirements/notify.txt", {})
_AT_THE_TOP = (Path("notify/function_app.py"), Path("notify/host.json"))
"""Files that lie at the top of the notifier's package, where a host looks for them."""
SITE_PACKAGES = Path(".python_packages") / "lib" / "site-packages"
"""Where the Functions host looks for an app's packages."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64")
_EPOCH = (1980, 1, 1, 0, 0, 0)


class PackageError(RuntimeError):
    """The package cannot be made; the message says why."""


@dataclass(frozen=True)
class Package:
    """A package that was made."""

    zip: Path
    bill: Path | None
    sha256: str


def make(
    output: Path, *, dependencies: bool = True, python: Path | None = None, root: Path = ROOT, app: App = QUEUE
) -> Package:
    """Writes the package of an app into a folder, with a bill of materials if it holds the dependencies.

    `python` is a Python 3.13 with pip (default: one that is found). Raises PackageError.
    """
    missing = [name for name in console_vendor.LIBRARIES if not (root / console_vendor.FOLDER / name).is_file()]
    if missing and "console" in app.product:
        raise PackageError(
            f"the console's libraries are not in {console_vendor.FOLDER}: {', '.join(missing)}.\n"
            "`./dev` puts them there when it sets up; by hand: python -m tools.local.console_vendor"
        )
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="package-") as scratch:
        folder = Path(scratch)
        for path in product_files(root, app):
            target = folder / (path.name if path in _AT_THE_TOP else path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, target)
        bill = None
        if dependencies:
            interpreter = python or _python()
            _install(interpreter, root / app.requirements, folder)
            _import(interpreter, folder, app)
            bill = output / f"{app.name}.cdx.json"
            bill.write_text(sbom.text(sbom.document(folder / SITE_PACKAGES, _version(root))), encoding="utf-8")
        made = _write(folder, output / f"{app.name}.zip")
        return Package(zip=made, bill=bill, sha256=_digest(made))


def product_files(root: Path, app: App = QUEUE) -> list[Path]:
    """Returns an app's own files, relative to the repository."""
    found = [path for name in app.product for path in _files(root / name)]
    return sorted(path.relative_to(root) for path in found)


def main(output: Path, *, dependencies: bool, unpacked: bool = False, app: App = QUEUE) -> int:
    """Makes the package, unpacked as well if that is asked for, and says what it is. Returns the exit code."""
    try:
        made = make(output, dependencies=dependencies, app=app)
    except (PackageError, bootstrap.SetupError) as error:
        print(f"./dev package: {error}", file=sys.stderr)
        return 1
    print(f"{made.zip}  {made.zip.stat().st_size:,} bytes  sha256:{made.sha256}")
    if made.bill is not None:
        print(made.bill)
    if unpacked:
        print(_for_azd(made.zip, output / app.name))
    return 0


def _for_azd(package: Path, folder: Path) -> Path:
    """Returns the package as a folder for azd, with a .funcignore that keeps compiled modules in."""
    shutil.rmtree(folder, ignore_errors=True)
    unpack(package, folder)
    (folder / ".funcignore").touch()
    return folder


def _python() -> Path:
    if sys.version_info[:2] == python313.WANTED:
        return Path(sys.executable)
    found = python313.find()
    if found is None:
        raise PackageError(
            "Python 3.13 is needed, which Azure runs the app on, and none is on the PATH.\n"
            + python313.how_to_install()
        )
    return found


def _install(python: Path, requirements: Path, folder: Path) -> None:
    """Installs the dependencies as binary packages for Azure's platform, and compiles everything: the package is
    read-only there."""
    target = folder / SITE_PACKAGES
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--target", str(target)]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    bootstrap.run_quietly([*pip, *platforms, *bootstrap.LOCKED, "-r", str(requirements)], folder)
    shutil.rmtree(target / "bin", ignore_errors=True)
    compiling = [str(python), "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash"]
    # With a fixed seed, sets of constants are written in the same order each time.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*compiling, "-s", str(folder), str(folder)],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise PackageError(f"the packages cannot be compiled:\n{done.stdout}{done.stderr}")


def _import(python: Path, folder: Path, app: App) -> None:
    """Imports the app as the worker does. Packages are for Linux, so nothing is imported elsewhere."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return
    try:
        loads.functions(folder, app.settings, python=python, packages=folder / SITE_PACKAGES)
    except loads.NotLoaded as error:
        raise PackageError(f"the app in the package cannot be imported:\n{error}") from None


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for found in path.rglob("*"):
        if found.is_file() and "__pycache__" not in found.parts and found.name != bootstrap.STAMP:
            yield found


def _write(folder: Path, output: Path) -> Path:
    """Writes a zip whose bytes do not depend on this moment or this machine."""
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return output


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(root: Path) -> str:
    match = re.search(r'^version = "([^"]+)"', (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None, "pyproject.toml has a version"
    return match[1]


def unpack(package: Path, folder: Path) -> Sequence[str]:
    """Unpacks the package into an empty folder, as Azure does. Returns the names."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
        return archive.namelist()
