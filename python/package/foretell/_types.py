"""What the arguments may be, for type checkers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, Union


class HasFileno(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""


class HasBuffer(Protocol):
    """What shows its memory."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory."""


class HasArray(Protocol):
    """What turns into a NumPy array, as tensors do."""

    def __array__(self) -> Any:
        """The array."""


File: TypeAlias = Union[int, HasFileno]
Pair: TypeAlias = tuple[SupportsIndex, SupportsIndex]
Ranges: TypeAlias = Union[HasBuffer, HasArray, Iterable[Union[SupportsIndex, Pair]]]
Policy: TypeAlias = Literal["lru", "mru", "s3-fifo", "sieve", "linux", "lirs", "adaptive"]
