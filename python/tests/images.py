"""What workers of PyTorch's data loaders import: a data set of objects, and what becomes of samples."""

from __future__ import annotations

import zlib
from typing import Any

from foretell.fs import ForetellFileSystem


class Images:
    """An object for each index: its index and its checksum."""

    def __init__(self, fs: ForetellFileSystem, paths: list[str]) -> None:
        self._fs = fs
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, at: int) -> tuple[int, int]:
        return at, zlib.crc32(self._fs.cat_file(self._paths[at]))


def decoded(samples: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The keys of samples, and the checksums of their images."""
    return [(one["__key__"], zlib.crc32(one["jpg"])) for one in samples]
