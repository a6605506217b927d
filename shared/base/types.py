"""The common types of the contract's schemas (contract 0.1), as pydantic sees them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, StringConstraints, create_model
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from shared.base.dates import format_date, parse_date
from shared.base.frozen import dataclass
from shared.base.priority import Priority

__all__ = ["Priority"]

PUBLIC_PREFIX = "public/"
UploadMode = Literal["direct", "relay", "auto"]
PATH_PATTERN = r"^([a-zA-Z0-9_!~*'()%-]+\.)*[a-zA-Z0-9_!~*'()%-]+$"
LONGEST_PATH = 255
"""The most characters of a path that responses may hold."""
SLUGID_PATTERN = r"^[A-Za-z0-9_-]{8}[Q-T][A-Za-z0-9_-][CGKOSWaeimquy26-][A-Za-z0-9_-]{10}[AQgw]$"
PROVISIONER_PATTERN = r"^[a-zA-Z0-9-_]{1,38}$"
WORKER_TYPE_PATTERN = r"^[a-z]([-a-z0-9]{0,36}[a-z0-9])?$"
TASK_QUEUE_PATTERN = r"^[a-zA-Z0-9-_]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?$"
SCOPE_PATTERN = r"^[\x20-\x7e]*$"


class Closed(BaseModel):
    """A JSON object without unknown properties; nothing is converted from another type."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=False, frozen=True, defer_build=True)


def _distinct(values: list[Any]) -> list[Any]:
    if len(set(map(repr, values))) != len(values):
        raise ValueError("items must be unique")
    return values


T = TypeVar("T")


@dataclass(frozen=True)
class OneOf:
    """Marks an `Annotated[str, …]` that allows these values only, for example those of an enumeration."""

    values: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema([str(value) for value in self.values])


SlugId = Annotated[str, StringConstraints(pattern=SLUGID_PATTERN)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=38, pattern=r"^([a-zA-Z0-9-_]*)$")]
ProvisionerId = Annotated[str, StringConstraints(pattern=PROVISIONER_PATTERN)]
WorkerType = Annotated[str, StringConstraints(pattern=WORKER_TYPE_PATTERN)]
TaskQueueId = Annotated[str, StringConstraints(pattern=TASK_QUEUE_PATTERN)]
ProjectId = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^([a-zA-Z0-9._/-]*)$")]
Scope = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN)]
Date = Annotated[
    str, AfterValidator(lambda text: format_date(parse_date(text))), Field(json_schema_extra={"format": "date-time"})
]
"""A date-time, normalised to milliseconds and `Z`."""
Unique = Annotated[list[T], AfterValidator(_distinct), Field(json_schema_extra={"uniqueItems": True})]
RunId = Annotated[int, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=0)]
Stability = Literal["experimental", "stable", "deprecated"]
"""The stability of an endpoint, or of a declared provisioner or task queue (contract 2.3)."""


def optional() -> Any:
    """Returns the default of a property that may be absent, but not null: None stands for its absence."""
    return Field(default_factory=lambda: None)


def page_model(name: str, doc: str, base: type[Closed] = Closed, **items: Any) -> type[Closed]:
    """Returns the model of a page: its `items` are properties by name, followed by the token of the next page."""
    properties: dict[str, Any] = {each: (kind, ...) for each, kind in items.items()}
    return create_model(name, __base__=base, __doc__=doc, continuationToken=(str, optional()), **properties)


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise PydanticCustomError("dict_type", "Input should be a valid dictionary")
    return value


OPAQUE = PlainValidator(_object, json_schema_input_type=dict[str, Any])
JsonObject = Annotated[dict[str, Any], OPAQUE]
"""A free-form JSON object, which is not validated."""
