"""What a task asks for, in the shape of generic-worker's simple payload (`simple_posix`), which taskgraph writes.

The queue does not look into `payload`, so the worker validates it, and lists all that is wrong.
`python -m worker --payload-schema` prints the JSON schema.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)
from pydantic.alias_generators import to_camel

MOST_INLINE = 65536
LONGEST_NAME = 1024


class MalformedPayload(ValueError):
    """The payload cannot be run, now or in another run; the message says why, one reason a line."""


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise ValueError("must be a path inside the task's folder")
    return path


def _several(value: Any) -> Any:
    """One command, which is a list of strings, stands for a list of that one."""
    return [value] if isinstance(value, list) and value and isinstance(value[0], str) else value


def _listed(value: Any) -> Any:
    """An object of name to path stands for a list of files."""
    if not isinstance(value, dict):
        return value
    return [{"type": "file", "name": name, "path": path} for name, path in value.items()]


Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Path_ = Annotated[Text, Field(min_length=1), AfterValidator(_inside)]
Name = Annotated[str, Field(pattern=r"^[\x20-\x7e]+$", max_length=LONGEST_NAME)]
Sha256 = Annotated[str, Field(pattern=r"^[a-f0-9]{64}$")]
Command = Annotated[list[Text], Field(min_length=1)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class Artifact(_Part):
    """A file, or all files of a directory, to be uploaded."""

    type: Literal["file", "directory"]
    path: Annotated[Path_, Field(description="In the task's folder.")]
    name: Annotated[
        Name | None, Field(description="Default: the path. Files of a directory: name/<their path in it>.")
    ] = None
    expires: Annotated[
        str | None,
        Field(
            pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$",
            description="Default, and at the latest: when the task expires.",
        ),
    ] = None
    content_type: Annotated[
        Name | None, Field(max_length=255, description="Default: by the ending of the file's name.")
    ] = None
    content_encoding: Annotated[Literal["identity", "gzip"], Field(description="gzip: is compressed on the way.")] = (
        "identity"
    )
    optional: Annotated[bool, Field(description="The task does not fail if it is missing.")] = False


class ArtifactContent(_Part):
    """An artifact of the last run of a task that is a dependency. Needs `queue:get-artifact:<artifact>`."""

    task_id: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_-]{8}[Q-T][A-Za-z0-9_-][CGKOSWaeimquy26-][A-Za-z0-9_-]{10}[AQgw]$")
    ]
    artifact: Name
    sha256: Sha256 | None = None


class IndexedContent(_Part):
    """An artifact of the task that the index holds at a path."""

    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    artifact: Name
    sha256: Sha256 | None = None


class UrlContent(_Part):
    """What a URL leads to."""

    url: Annotated[str, Field(pattern=r"^https?://[^/]")]
    sha256: Sha256 | None = None


class RawContent(_Part):
    """The text itself."""

    raw: Annotated[str, Field(max_length=MOST_INLINE)]


class Base64Content(_Part):
    """The bytes themselves, in base64."""

    base64: Annotated[str, Field(max_length=MOST_INLINE, pattern=r"^[A-Za-z0-9/+]+={0,2}$")]


def _kind_by(*keys: str) -> Discriminator:
    """Tells the members of a union apart by the first of these keys that is there."""

    def kind(value: Any) -> str | None:
        return next((key for key in keys if isinstance(value, dict) and key in value), None)

    return Discriminator(
        kind, custom_error_type="unknown_kind", custom_error_message=f"must have one of {', '.join(keys)}"
    )


Content = Annotated[
    Annotated[ArtifactContent, Tag("taskId")]
    | Annotated[IndexedContent, Tag("namespace")]
    | Annotated[UrlContent, Tag("url")]
    | Annotated[RawContent, Tag("raw")]
    | Annotated[Base64Content, Tag("base64")],
    _kind_by("taskId", "namespace", "url", "raw", "base64"),
]
Compression = Literal["bz2", "gz", "xz", "zst"]
Archive = Literal["tar", "tar.bz2", "tar.gz", "tar.xz", "tar.zst", "zip"]


class FileMount(_Part):
    """A file with this content; `format`: how it is compressed."""

    file: Path_
    content: Content
    format: Compression | None = None


class WritableDirectoryCache(_Part):
    """A directory that later tasks of this machine find as this one leaves it. Needs `generic-worker:cache:<name>`."""

    directory: Path_
    cache_name: Annotated[Text, Field(min_length=1, max_length=255)]
    content: Annotated[Content | None, Field(description="An archive that a new cache starts with.")] = None
    format: Archive | None = None


class ReadOnlyDirectory(_Part):
    """A directory with the content of an archive; what the task changes in it is lost."""

    directory: Path_
    content: Content
    format: Archive


Mount = Annotated[
    Annotated[FileMount, Tag("file")]
    | Annotated[WritableDirectoryCache, Tag("cacheName")]
    | Annotated[ReadOnlyDirectory, Tag("directory")],
    _kind_by("file", "cacheName", "directory"),
]


class Features(_Part):
    """What is on or off."""

    taskcluster_proxy: Annotated[
        bool, Field(description="TASKCLUSTER_PROXY_URL leads to a proxy that signs with the task's credentials.")
    ] = False
    live_log: Annotated[bool, Field(description="The log can be read while the task runs.")] = True
    backing_log: Annotated[bool, Field(description="The whole log has the name `logs.backing` at the end.")] = True


class Logs(_Part):
    """Names of the log."""

    live: Name = "public/logs/live.log"
    backing: Name = "public/logs/live_backing.log"


class OnExitStatus(_Part):
    """Exit codes with a meaning."""

    retry: Annotated[
        list[Annotated[int, Field(ge=1)]], Field(description="intermittent-task: the queue retries the task.")
    ] = []
    purge_caches: Annotated[list[Annotated[int, Field(ge=0)]], Field(description="The task's caches are deleted.")] = []


class Payload(_Part):
    """What a task asks of the reference worker."""

    model_config = ConfigDict(title="Payload of the reference worker")

    command: Annotated[
        list[Command],
        Field(min_length=1, description="Commands, one after the other until one fails: the program, its arguments."),
        BeforeValidator(_several, json_schema_input_type=list[Command] | Command),
    ]
    env: dict[Variable, Text] = {}
    max_run_time: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Seconds for all commands together; then the task has failed."),
    ] = None
    artifacts: Annotated[
        list[Artifact],
        BeforeValidator(_listed, json_schema_input_type=list[Artifact] | dict[Name, Path_]),
        Field(description="A list, or an object of name to file."),
    ] = []
    mounts: list[Mount] = []
    on_exit_status: OnExitStatus = OnExitStatus()
    features: Features = Features()
    logs: Logs = Logs()
    os_groups: Annotated[list[str], Field(max_length=0)] = []
    """None can be given; taskgraph may send the empty list."""


def parse(value: Any, *, most_run_time: float | None = None) -> Payload:
    """The payload of a definition. Raises MalformedPayload that lists all that is wrong.

    `most_run_time`: seconds, the worker's limit, which also applies where the payload has none.
    """
    try:
        payload = Payload.model_validate(value)
    except ValidationError as error:
        raise MalformedPayload("\n".join(_reason(each) for each in error.errors(include_url=False))) from None
    problems = [_preload(number, mount) for number, mount in enumerate(payload.mounts)]
    if most_run_time is not None and (payload.max_run_time or 0) > most_run_time:
        problems.append(f"payload.maxRunTime must not exceed this worker's limit of {most_run_time:g} s")
    if any(problems):
        raise MalformedPayload("\n".join(filter(None, problems)))
    limit = most_run_time if payload.max_run_time is None else payload.max_run_time
    return payload.model_copy(update={"max_run_time": limit})


def schema() -> dict[str, Any]:
    """The JSON schema of payloads."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Payload.model_json_schema()}


def _preload(number: int, mount: FileMount | WritableDirectoryCache | ReadOnlyDirectory) -> str | None:
    if isinstance(mount, WritableDirectoryCache) and (mount.content is None) != (mount.format is None):
        return f"payload.mounts[{number}]: a cache has both content and format, or neither"
    return None


_TAGS = {"file", "cacheName", "directory", "taskId", "namespace", "url", "raw", "base64"}


def _reason(error: Any) -> str:
    """One problem: where, in the payload's own words, and what."""
    where, words = "payload", [word for word in error["loc"] if word != "[key]"]
    for index, word in enumerate(words):
        if isinstance(word, int):
            where += f"[{word}]"
        elif not (word in _TAGS and index and (isinstance(words[index - 1], int) or words[index - 1] == "content")):
            where += f".{word}"
    given = repr(error["input"])
    shown = "" if error["type"] in ("missing", "unknown_kind") else f" (here: {given[:80]}{'…' * (len(given) > 80)})"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}{shown}"
