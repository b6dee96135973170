"""Tensors of GGUF files in stores: read once, and ahead of their use.

    from foretell.gguf import load, read_header

    header = read_header(fs, "bucket/model.gguf")  # fs: foretell.fs.ForetellFileSystem
    print(header.metadata["general.architecture"])
    weights = {name: tensor.numpy() for name, tensor in load(fs, "bucket/model.gguf")}

The format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; its versions 2 and 3, in the order of bytes of nearly all
machines) begins with typed values by their names, goes on with names, shapes, types and offsets of the tensors, and ends with
their bytes. How long its header is shows when it has been read, so that is read in order, and a pool reads ahead. What of
the tensors will be read is disclosed as soon as the header is there, in the order of the file.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from foretell._tensors import in_order
from foretell.fs import ForetellFileSystem
from foretell.pool import Object

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Header", "Place", "Tensor", "load", "read_header"]

# Bytes of a header at most. The vocabularies of large models, with their merges, take 15 MB.
_MOST_HEADER = 64 << 20
# What of a header is read at a time.
_STEP = 256 << 10
# Dimensions of a tensor at most: ggml's own limit is 4, and may be raised.
_MOST_DIMENSIONS = 8
# Arrays within arrays, in which nobody has been seen to go further than one.
_MOST_NESTED = 4

# Types of values by number: how `struct` and `array` call them. Strings and arrays come by themselves.
_VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# Types of tensors by number (enum ggml_type): their names, elements of a block, and bytes of a block.
_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
_BLOCKS = {name: (elements, size) for name, elements, size in _TYPES.values()}

# What numpy and PyTorch have types for; of all else they get the bytes.
_NUMPY = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
}
_TORCH = {**_NUMPY, "BF16": "bfloat16"}


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in its file, and what it is.

    type: as ggml names it: "F32", "Q4_K", ...
    shape: as numpy has it, the dimension whose elements lie beside each other last.
    offset, length: in bytes, from the beginning of the file on.
    """

    type: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True)
class Header:
    """What a file says before its tensors.

    metadata: numbers, strings, lists of strings or of lists, and arrays of numbers (`array.array`).
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Tensor:
    """The bytes of a tensor, and what they are.

    type, shape: those of its place in the file.
    data: memory of its own, which arrays and tensors made of it share.
    """

    type: str
    shape: tuple[int, ...]
    data: bytearray

    def _shaped(self, has_its_type: bool) -> tuple[int, ...]:
        elements, size = _BLOCKS[self.type]
        if has_its_type or not self.shape:
            return self.shape
        return (*self.shape[:-1], self.shape[-1] // elements * size)

    def numpy(self) -> np.ndarray[Any, Any]:
        """An array over the same memory; of a type that numpy has not got, its bytes, row by row: what gguf.dequantize takes."""
        import numpy as np

        name = _NUMPY.get(self.type)
        return np.frombuffer(self.data, dtype=name or "uint8").reshape(self._shaped(name is not None))

    def torch(self) -> Any:
        """A tensor of PyTorch over the same memory; of a type that PyTorch has not got, its bytes, row by row."""
        import torch  # type: ignore[import-not-found,unused-ignore]

        name = _TORCH.get(self.type)
        dtype, shape = getattr(torch, name or "uint8"), self._shaped(name is not None)
        # There is nothing that an empty one could share.
        return torch.frombuffer(self.data, dtype=dtype).reshape(shape) if self.data else torch.empty(shape, dtype=dtype)


def load(
    fs: ForetellFileSystem, path: str, names: Collection[str] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of a file, in the order in which they lie there.

    names: those that are wanted; all of them without that. Raises KeyError for one that is not there, and ValueError for a
    file that is none of this format.
    """
    tensors = read_header(fs, path).tensors
    places = {name: (place.offset, place.length) for name, place in tensors.items()}
    for name, data in in_order(fs, path, places, names):
        yield name, Tensor(tensors[name].type, tensors[name].shape, data)


def read_header(fs: ForetellFileSystem, path: str) -> Header:
    """What a file says before its tensors. Raises ValueError for one that is none of this format."""
    try:
        return _parsed(_Reader(fs.opened(path)))
    except (struct.error, ValueError) as error:
        raise ValueError(f"{path}: no GGUF file: {error}") from error


class _Reader:
    """A file from its beginning on, as far as a header may go."""

    def __init__(self, one: Object) -> None:
        self._one = one
        self.file_bytes = one.length
        self._end = min(one.length, _MOST_HEADER)
        self._bytes = b""
        # Where those begin in the file, and how many of them were taken.
        self._begin = self._taken = 0

    @property
    def position(self) -> int:
        return self._begin + self._taken

    def take(self, count: int) -> bytes:
        if count > self._end - self.position:
            raise ValueError(
                "it ends within its header"
                if self._end == self.file_bytes
                else f"its header is longer than {_MOST_HEADER} bytes"
            )
        if self._taken + count > len(self._bytes):
            begin, rest = self.position, self._bytes[self._taken :]
            more = min(max(_STEP, count - len(rest)), self._end - begin - len(rest))
            self._bytes = rest + self._one.read(begin + len(rest), more)
            self._begin, self._taken = begin, 0
        self._taken += count
        return self._bytes[self._taken - count : self._taken]

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]

    def count(self, least: int) -> int:
        """How many there are of something that takes so many bytes at least."""
        count: int = self.number("Q")
        if count * least > self._end - self.position:
            raise ValueError(f"{count} of something do not fit into it")
        return count

    def string(self) -> str:
        return self.take(self.count(1)).decode(errors="surrogateescape")

    def value(self, kind: int, nested: int = 0) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(nested + 1)
        if kind not in _VALUES:
            raise ValueError(f"a value is of the type {kind}, which is not known")
        return self.number(_VALUES[kind])

    def _array(self, nested: int) -> Any:
        if nested > _MOST_NESTED:
            raise ValueError("too many arrays lie within each other")
        kind = self.number("I")
        if kind in (_STRING, _ARRAY):
            # A length, or a type and a length, at least.
            return [self.value(kind, nested) for _ in range(self.count(8 if kind == _STRING else 12))]
        if (code := _VALUES.get(kind)) is None:
            raise ValueError(f"an array is of the type {kind}, which is not known")
        size = struct.calcsize(f"<{code}")
        # Truth values as the numbers that they are.
        values = array("B" if code == "?" else code)
        values.frombytes(self.take(self.count(size) * size))
        return values


def _parsed(reader: _Reader) -> Header:
    if reader.take(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    if (version := reader.number("I")) not in (2, 3):
        raise ValueError(f"its version is {version}, and 2 and 3 are known")
    header = Header()
    # A tensor has a name, a number of dimensions, a type and an offset, a value a name, a type and itself.
    tensors, values = reader.count(24), reader.count(13)
    for _ in range(values):
        name = reader.string()
        if name in header.metadata:
            raise ValueError(f"{name!r} is there twice")
        header.metadata[name] = reader.value(reader.number("I"))
    alignment = header.metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"its alignment is {alignment!r}")
    for _ in range(tensors):
        name = reader.string()
        if name in header.tensors:
            raise ValueError(f"the tensor {name!r} is there twice")
        header.tensors[name] = _place(reader, alignment)
    # Offsets count from here.
    start = -(-reader.position // alignment) * alignment
    for name, place in header.tensors.items():
        if start + place.offset + place.length > reader.file_bytes:
            raise ValueError(f"the tensor {name!r} lies outside of the file")
        header.tensors[name] = Place(place.type, place.shape, start + place.offset, place.length)
    return header


def _place(reader: _Reader, alignment: int) -> Place:
    """A tensor, with its offset as the file has it; all of it may be anything."""
    if (dimensions := reader.number("I")) > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor has {dimensions} dimensions")
    shape = tuple(reversed(struct.unpack(f"<{dimensions}Q", reader.take(8 * dimensions))))
    kind, offset = reader.number("I"), reader.number("Q")
    if kind not in _TYPES:
        raise ValueError(f"a tensor is of the type {kind}, which is not known")
    name, elements, size = _TYPES[kind]
    if (shape[-1] if shape else 1) % elements:
        raise ValueError(f"a tensor of the type {name} has rows of {shape[-1] if shape else 1} elements")
    if offset % alignment:
        raise ValueError("a tensor is not aligned")
    return Place(name, shape, offset, prod(shape) // elements * size)
