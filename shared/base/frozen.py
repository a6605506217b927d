"""`dataclass`, whose `frozen=True` is for the type checker alone.

`dataclasses` has an instance that is frozen set each of its fields by a call of `object.__setattr__`: more than half of
the time that it takes to make one. mypy refuses assignments to them, so here nothing looks again at run time. Hash and
equality are the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


def _dataclass(cls: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, **options: Any) -> Any:
    """As `dataclasses.dataclass`. With `frozen`, fields can be set at run time all the same, but no code may."""
    decorate: Callable[[type[T]], type[T]] = dataclasses.dataclass(eq=eq, unsafe_hash=frozen and eq, **options)
    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
