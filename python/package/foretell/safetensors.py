"""Tensors of safetensors files in stores: read once, and ahead of their use.

    from foretell.safetensors import load

    tensors = load(fs, "bucket/model.safetensors")  # fs: foretell.fs.ForetellFileSystem
    weights = {name: tensor.torch() for name, tensor in tensors}

The format (https://huggingface.co/docs/safetensors) is a length, a header of JSON, and the bytes of all tensors. What will be
read is disclosed as soon as the header is there, in the order of the file, so that many requests are under way while the
first tensors are taken.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from foretell._tensors import in_order
from foretell.fs import ForetellFileSystem

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Tensor", "load"]

# Bytes of a header at most: the limit of the safetensors library.
_MOST_HEADER = 100_000_000

# Names of types in files: bytes of an element, and what numpy and PyTorch call it.
_TYPES: dict[str, tuple[int, str | None, str | None]] = {
    "F64": (8, "float64", "float64"),
    "F32": (4, "float32", "float32"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, None, "bfloat16"),
    "F8_E4M3": (1, None, "float8_e4m3fn"),
    "F8_E5M2": (1, None, "float8_e5m2"),
    "I64": (8, "int64", "int64"),
    "I32": (4, "int32", "int32"),
    "I16": (2, "int16", "int16"),
    "I8": (1, "int8", "int8"),
    "U64": (8, "uint64", "uint64"),
    "U32": (4, "uint32", "uint32"),
    "U16": (2, "uint16", "uint16"),
    "U8": (1, "uint8", "uint8"),
    "BOOL": (1, "bool", "bool"),
}


@dataclass(frozen=True)
class Tensor:
    """The bytes of a tensor, and what they are.

    dtype: as the file names it: "F32", "BF16", ...
    data: memory of its own, which arrays and tensors made of it share.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytearray

    def numpy(self) -> np.ndarray[Any, Any]:
        """An array over the same memory."""
        import numpy as np

        if (name := _TYPES[self.dtype][1]) is None:
            raise TypeError(f"numpy has no type for {self.dtype}; use torch()")
        return np.frombuffer(self.data, dtype=name).reshape(self.shape)

    def torch(self) -> Any:
        """A tensor of PyTorch over the same memory."""
        import torch  # type: ignore[import-not-found,unused-ignore]

        dtype = getattr(torch, _TYPES[self.dtype][2] or "")
        # There is nothing that an empty one could share.
        return torch.frombuffer(self.data, dtype=dtype).reshape(self.shape) if self.data else torch.empty(self.shape, dtype=dtype)


def load(
    fs: ForetellFileSystem, path: str, names: Collection[str] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of a file, in the order in which they lie there.

    names: those that are wanted; all of them without that. Raises KeyError for one that is not there, and ValueError for a
    file that is none of this format.
    """
    one = fs.opened(path)

    def wrong(why: str) -> ValueError:
        return ValueError(f"{path}: no safetensors file: {why}")

    if one.length < 8:
        raise wrong("it is too short")
    length = int.from_bytes(one.read(0, 8), "little")
    if length > min(_MOST_HEADER, one.length - 8):
        raise wrong(f"a header of {length} bytes does not fit into it")
    start = 8 + length
    try:
        header = json.loads(one.read(8, length))
        listed = {name: _entry(entry, one.length - start) for name, entry in header.items() if name != "__metadata__"}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise wrong(f"its header cannot be understood ({error})") from error
    places = {name: (start + at, size) for name, (_, _, at, size) in listed.items()}
    for name, data in in_order(fs, path, places, names):
        dtype, shape, _, _ = listed[name]
        yield name, Tensor(dtype, shape, data)


def _entry(entry: Any, most: int) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape, offset and length of a tensor; all of it may be anything."""
    dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not all(isinstance(number, int) and number >= 0 for number in (*shape, begin, end)):
        raise ValueError("a number is none")
    if dtype not in _TYPES:
        raise ValueError(f"the type {dtype!r} is not known")
    if not begin <= end <= most:
        raise ValueError("a tensor lies outside of the file")
    if prod(shape) * _TYPES[dtype][0] != end - begin:
        raise ValueError("a tensor is not as long as its shape")
    return dtype, shape, begin, end - begin
