"""`./dev release`: whether this commit can be released, the notes of its release, and the digests of images.

Nothing of it changes what is deployed: it refuses a release whose parts do not agree, before the tag's workflow makes
one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.local.docs_site import repository
from tools.local.state import ROOT

EXAMPLE_OWNER = "OWNER"
"""Placeholder for the publisher of the repository, until a person has named one."""
IMAGE_FILES = ("tools/compose.yaml", "worker/Dockerfile", ".devcontainer/devcontainer.json", ".github/workflows/ci.yml")
"""Files that name images of containers."""
_IMAGE = re.compile(
    r"""(?:^\s*image:\s*|"image":\s*"|^FROM\s+(?=\S*[:/])|^ARG\s+BASE=|docker\ run\s(?:--\w+\s)*(?=[\w.-]+/[\w./-]+:))
    (?P<image>[\w.-]+(?:/[\w.-]+)*:[\w.-]+)(?P<digest>@sha256:[0-9a-f]{64})?""",
    re.MULTILINE | re.VERBOSE,
)

_NAMED = re.compile(r"(?<=codespaces\.new/)[\w.-]+/[\w.-]+|(?<=azd init --template )[\w.-]+/[\w.-]+")
"""Places where documents name the repository as OWNER/NAME, in commands that readers copy."""


class NoDigestError(Exception):
    """The registry did not say which digest an image has."""


@dataclass(frozen=True)
class Image:
    """An image that a file names."""

    file: str
    name: str
    """Name of the image, with its tag."""
    pinned: bool


def version(root: Path = ROOT) -> str:
    """Returns the version of the project that pyproject.toml states."""
    found: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return found


def images(root: Path = ROOT) -> list[Image]:
    """Returns every image that the repository starts or builds on."""
    return [
        Image(file, match["image"], match["digest"] is not None)
        for file in IMAGE_FILES
        for match in _IMAGE.finditer((root / file).read_text(encoding="utf-8"))
    ]


def problems(root: Path = ROOT, *, tag: str = "", published_by: str = "") -> Iterator[str]:
    """Yields what keeps this commit from being released; `published_by` is GitHub's name of the repository."""
    number = version(root)
    if tag and tag != f"v{number}":
        yield f"the tag is {tag}, and pyproject.toml has the version {number}"
    if not re.search(
        rf"^## \[{re.escape(number)}\] - \d{{4}}-\d\d-\d\d$",
        (root / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    ):
        yield f"CHANGELOG.md has no section of {number} with a date"
    if f"@{number}\n" not in (root / "azure.yaml").read_text(encoding="utf-8"):
        yield f"azure.yaml names another version of the template than {number}"
    if not (root / "tests" / "parts" / "samples" / f"storage-{number}.json.gz").exists():
        yield f"no sample of what {number} stores is kept: `.venv/bin/python -m tests.parts.samples`"
    address = repository(root)
    if EXAMPLE_OWNER in address.split("/"):
        yield f"pyproject.toml has the example's repository, {address}: `./dev release repository URL`"
    elif published_by and not address.endswith(f"/{published_by}"):
        yield f"pyproject.toml says {address}, and this is {published_by}: `./dev release repository URL`"
    yield from (f"{each} names another repository than pyproject.toml" for each in _elsewhere(root, address))
    for image in images(root):
        if not image.pinned:
            yield f"{image.file}: {image.name} has no digest: `./dev release pin-images`"


def check(tag: str) -> int:
    """Prints what keeps this commit from being released; the exit code is 0 if nothing does."""
    found = list(problems(tag=tag, published_by=os.environ.get("GITHUB_REPOSITORY", "")))
    for problem in found:
        print(f"./dev release: {problem}", file=sys.stderr)
    if not found:
        print(f"{version()} can be released.")
    return 1 if found else 0


def notes(root: Path = ROOT, *, worker_image: str = "") -> str:
    """Returns the text of the release: its section of the changelog, and the worker's image by digest."""
    number = version(root)
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(rf"^## \[{re.escape(number)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"CHANGELOG.md has a section of {number}"
    parts = [_absolute(match[1].strip(), f"{repository(root)}/blob/v{number}/")]
    if worker_image:
        parts.append(f"### Worker image\n\n```sh\n./dev deployment set workerImage {worker_image}\nazd provision\n```")
    return "\n\n".join(parts) + "\n"


def pin_images(root: Path = ROOT, digest_of: Callable[[str], str] | None = None) -> list[str]:
    """Writes the digest behind each image that has none; returns what was pinned. Needs docker with buildx.

    Raises NoDigestError if docker is missing or the registry does not answer; earlier files are written by then.
    """
    pinned: list[str] = []
    for file in IMAGE_FILES:
        text = (root / file).read_text(encoding="utf-8")

        def pin(match: re.Match[str]) -> str:
            if match["digest"]:
                return match[0]
            digest = (digest_of or _digest_in_registry)(match["image"])
            pinned.append(f"{match['image']}@{digest}")
            return f"{match[0]}@{digest}"

        (root / file).write_text(_IMAGE.sub(pin, text), encoding="utf-8")
    return pinned


def set_repository(address: str, root: Path = ROOT) -> list[str]:
    """Says in every file which repository this is (https://HOST/OWNER/NAME); returns the files that changed."""
    new = address.rstrip("/").removesuffix(".git")
    old = re.compile(re.escape(repository(root)) + r"(?![\w.-])")
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", new):
        raise ValueError(f"not the address of a repository: {address}")
    changed: list[str] = []
    for file in _named_in(root):
        text = (root / file).read_text(encoding="utf-8")
        replaced = _NAMED.sub(_short(new), old.sub(new, text))
        if replaced != text:
            (root / file).write_text(replaced, encoding="utf-8")
            changed.append(file)
    return changed


def _named_in(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, encoding="utf-8", check=True
    ).stdout.splitlines()
    return [file for file in listed if file.endswith((".md", ".toml", ".yml", ".yaml", ".json")) and "lock" not in file]


def _elsewhere(root: Path, address: str) -> Iterator[str]:
    """Yields files that name another repository as this one."""
    for file in _named_in(root):
        if set(_NAMED.findall((root / file).read_text(encoding="utf-8"))) - {_short(address)}:
            yield file


def _short(address: str) -> str:
    return "/".join(address.split("/")[-2:])


def _absolute(text: str, base: str) -> str:
    """Returns a text with its links as they must be on the page of a release, outside the repository."""
    return re.sub(r"(?<=\]\()(?!https?:|#)(?=[^)\s]+\))", base, text)


def _digest_in_registry(image: str) -> str:
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{json .Manifest}}"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    except FileNotFoundError:
        raise NoDigestError("docker is needed, with buildx") from None
    except subprocess.CalledProcessError as error:
        raise NoDigestError(f"{' '.join(command)} failed: {error.stderr.strip()}") from error
    digest: str = json.loads(done.stdout)["digest"]
    return digest
