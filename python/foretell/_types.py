"""What the arguments may be, for type checkers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HasFileno(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""


class HasArray(Protocol):
    """What turns into a NumPy array, as tensors do."""

    def __array__(self) -> Any:
        """The array."""


File: TypeAlias = Union[int, HasFileno]
Pair: TypeAlias = tuple[SupportsIndex, SupportsIndex]
Ranges: TypeAlias = "Buffer | HasArray | Iterable[SupportsIndex | Pair]"
Policy: TypeAlias = Literal["lru", "mru"]
