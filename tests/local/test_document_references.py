"""What the documents name exists: links, files, modules, settings, commands with their options, quoted messages."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from shared.app.apis import QUEUE
from shared.base.priority import PRIORITIES
from shared.queue.events.rules import Exchange
from shared.queue.tasks.rules import Created, Resolved
from tools.admin.cli import app as admin_app
from tools.bench.load.__main__ import run_parser
from tools.local.cli import TOOLS, app
from tools.local.state import ROOT

CODE = (
    ".github",
    "docs/examples",
    "functions",
    "infra",
    "shared",
    "tests",
    "tools",
    "worker",
)
PACKAGES = ("functions", "shared", "tests", "tools", "worker")
FOLDERS = (*PACKAGES, "console", "docs", "infra", ".github", ".ci", ".vscode")
MADE = (".venv", ".local", "node_modules", "dist")
"""Folders that commands make: named, and not in the repository."""
NOT_OURS = {"node_modules", "vendor", "sample_project"}


def _inside(folder: str) -> Iterator[Path]:
    """What is in a folder of the repository and is ours."""
    return (path for path in (ROOT / folder).rglob("*") if NOT_OURS.isdisjoint(path.parts))


DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(found for folder in FOLDERS for found in _inside(folder)))
    if path.suffix == ".md"
)
OTHERS_VARIABLES = re.compile(r"(AZURE|HTTPS?|PIP|OTEL|FUNCTIONS|CRASH|ACCEPT|MSSQL)_|VARIABLE_NAME")
"""Names of Azure's, pip's and OpenTelemetry's own variables, and of seeds."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELLS = {"sh", "console", "shell", ""}
_FILE = re.compile(r"[\w.-]+\.(?:py|md|json|toml|yml|bicep|js|cjs|in|txt)")
_MODULE = re.compile(r"(?<![\w./<{*-])((?:[\w-]+/)*[a-z_]\w+\.py)\b(?!\()")
_SETTING = re.compile(r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=.*)?")


def code_of(document: Path) -> list[str]:
    """The inline code of a document."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", document.read_text()))


@cache
def spans() -> list[tuple[Path, str]]:
    """The inline code of all documents, each piece of a document once."""
    return [(document, span) for document in DOCUMENTS for span in dict.fromkeys(code_of(document))]


def commands(document: Path) -> Iterator[list[str]]:
    """The words of each `./dev …` of a document, in shell blocks and in inline code."""
    blocks = [block for language, block in _FENCE.findall(document.read_text()) if language in _SHELLS]
    lines = [line for block in blocks for line in block.splitlines()]
    for text in (*lines, *code_of(document)):
        for found in re.findall(r"\./dev ([^#|>)&…]*)", text):
            try:
                yield shlex.split(found.replace("[", "").replace("]", ""))
            except ValueError:  # the quotation ends outside of the command: eval "$(./dev env)"
                yield shlex.split(found.replace('"', "").replace("'", ""))


@cache
def corpus() -> str:
    """All code as one text, in which strings that are written in several pieces are one."""
    files = [path for folder in CODE for path in _inside(folder) if path.suffix in _SUFFIXES]
    text = "\n".join(
        path.read_text()
        for path in (*files, ROOT / "dev", *ROOT.glob("*.*"))
        if path.is_file() and path.suffix != ".md"
    )
    return re.sub(r'"\s*\n\s*f?"', "", text)


@cache
def capitals() -> frozenset[str]:
    """All words of the code in capitals: settings, variables, constants."""
    return frozenset(re.findall(r"\b[A-Z][A-Z0-9_]+\b", corpus()))


@cache
def command_of(of_operators: bool) -> Any:
    """The command line of `./dev`, or of `./dev admin`."""
    return typer.main.get_command(admin_app if of_operators else app)


_SUFFIXES = {".py", ".js", ".cjs", ".mjs", ".bicep", ".json", ".sh", ".yml", ".in"}


@cache
def names() -> frozenset[str]:
    """The names of all files."""
    found = (path.name for folder in FOLDERS for path in _inside(folder))
    return frozenset((*found, *(path.name for path in ROOT.iterdir())))


@cache
def anchors(document: Path) -> set[str]:
    """Explicit anchors, and those that GitHub makes of headings."""
    text = _FENCE.sub("", document.read_text())
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return set(re.findall(r'<a id="([^"]+)"></a>', text)) | {heading.replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "`", document.read_text(), flags=re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose):
            if re.match(r"https?://", target):
                continue
            path = (document.parent / target).resolve() if target else document
            assert path.exists(), f"{document}: {target}"
            assert not anchor or anchor in anchors(path), f"{document}: {target}#{anchor}"


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_every_document_is_linked_from_the_front_page_of_its_folder(folder: str) -> None:
    front = (ROOT / folder / "README.md").read_text()
    missing = [path.name for path in (ROOT / folder).glob("*.md") if f"]({path.name}" not in front]
    assert missing == ["README.md"]


def test_the_glossary_is_in_order() -> None:
    rows = re.findall(r"^\| ([^|]+?) \| ", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert len(rows) > 50
    assert rows == sorted(rows, key=str.lower)


def test_files_exist() -> None:
    for document, span in spans():
        path, _, test = span.partition("::")
        path = path.removeprefix("./")
        if re.search(r"[<>…\s$]", path) or path.split("/")[0] in MADE:
            continue
        if "/" in path and path.split("/")[0] in FOLDERS:
            assert any(ROOT.glob(path.rstrip("/"))), f"{document}: {path}"
            assert not test or f"def {test}(" in (ROOT / path).read_text(), f"{document}: {span}"
        elif _FILE.fullmatch(path):
            assert path in names() or path in corpus(), f"{document}: {path}"


def test_modules_that_prose_docstrings_and_comments_name_exist() -> None:
    """Of the tests' own files only documents: tests make modules of other names."""
    suffixes = _SUFFIXES - {".json"}
    code = [path for folder in CODE if folder != "tests" for path in _inside(folder)]
    for path in (*DOCUMENTS, *code):
        if path.suffix in {*suffixes, ".md"}:
            for name in _MODULE.findall(path.read_text()):
                places = (ROOT / name, path.parent / name) if "/" in name else ()
                assert any(place.exists() for place in places) or ("/" not in name and name in names()), (
                    f"{path}: {name}"
                )


def test_modules_exist() -> None:
    for document in DOCUMENTS:
        for module in re.findall(r"python -m ([a-z_.]+)", document.read_text()):
            if module.partition(".")[0] in PACKAGES:
                path = ROOT / module.replace(".", "/")
                assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), f"{document}: {module}"
    for document, span in spans():
        if re.fullmatch(rf"({'|'.join(PACKAGES)})(\.\w+)+(\.\*)?", span) and not _FILE.fullmatch(span):
            assert _is_defined(span.removesuffix(".*")), f"{document}: {span}"


def _is_defined(name: str) -> bool:
    """Whether a dotted name is a package, a module, or something that a module defines."""
    path = ROOT
    words = name.split(".")
    for number, word in enumerate(words):
        path /= word
        if path.with_suffix(".py").exists():
            text = path.with_suffix(".py").read_text()
            return all(re.search(rf"\b{rest}\b", text) for rest in words[number + 1 :])
    return path.is_dir() or path.suffix in {".py", ".md"}


def test_settings_and_variables_exist() -> None:
    for document, span in spans():
        found = _SETTING.fullmatch(span)
        if found and not OTHERS_VARIABLES.match(span):
            assert found[1] in capitals(), f"{document}: {span}"


def test_commands_and_their_options_exist() -> None:
    for document in DOCUMENTS:
        for words in commands(document):
            if words and re.fullmatch("[a-z-]+", words[0]):
                _check(words, str(document))


def _check(words: list[str], place: str = "") -> None:
    """Raises AssertionError for a command, or an option of one, that `./dev` does not have."""
    command = command_of(False)
    names = list(words)
    if names[0] == "admin":
        command = command_of(True)
        names = names[1:]
    elif names[0] in {tool.name for tool in TOOLS}:
        return  # they parse for themselves, and their own READMEs and tests hold them
    while names and hasattr(command, "commands"):
        if not re.fullmatch("[a-z][a-z-]*", names[0]):
            return  # a placeholder
        assert names[0] in command.commands, f"{place}: {' '.join(words)}"
        command = command.commands[names.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    if command.name == "bench":
        known |= set(re.findall(r"--[a-z-]+", run_parser().format_help()))
    if command.name == "test":
        known |= {"--all", "--coverage", "--quick"}
        names = [name for name in names if name in known]  # the rest is pytest's
    for name in names:
        if re.fullmatch(r"--?[a-z][a-z-]*", name) and name != "--help":
            assert name in known, f"{place}: {name} of {' '.join(words)}"


def test_the_contract_names_every_reason_priority_exchange_and_endpoint() -> None:
    text = (ROOT / "docs" / "contract.md").read_text()
    for value in (*Resolved, *Created, *PRIORITIES):
        assert f"`{value}`" in text, value
    for exchange in Exchange:
        assert f" {exchange}" in text, exchange
    for endpoint in QUEUE.endpoints:
        assert re.search(rf"\b{endpoint.name}\b", text), endpoint.name


@pytest.mark.parametrize(
    "words",
    ["undo", "up --detached", "admin worker quarantines", "admin group list --limits x"],
)
def test_wrong_commands_and_options_are_noticed(words: str) -> None:
    with pytest.raises(AssertionError):
        _check(words.split())


def test_messages_that_troubleshooting_quotes_are_in_the_code() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    rows = [row.split(" | ")[0] for row in text.splitlines() if row.startswith("| ")]
    quoted = [message for row in rows for message in re.findall(r'(?<!`)"([^"`]+)"(?!:)', row)]
    assert len(quoted) > 20
    for message in quoted:
        for part in message.split("…"):
            assert part.strip(" .()") in corpus(), message
    for action in re.findall(r'"action": "(\w+)"', text):
        assert f'"action": "{action}"' in corpus() or f'"{action}" if' in corpus(), action
    for metric in re.findall(r"`(queue_\w+)`", text):
        assert f'"{metric}"' in corpus(), metric
